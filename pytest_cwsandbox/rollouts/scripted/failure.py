"""Answers other than 200, as OpenAI gives them."""

from __future__ import annotations


class ApiError(Exception):
    """A refusal of the server: HTTP status, OpenAI's error code, words, and more headers."""

    def __init__(
        self, status: int, code: str, message: str, headers: dict[str, str] | None = None
    ) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.headers = headers or {}

    @property
    def body(self) -> dict[str, object]:
        kind = "invalid_request_error" if self.status < 500 else "server_error"
        error = {"message": str(self), "type": kind, "param": None, "code": self.code}
        return {"error": error}


def invalid(message: str) -> ApiError:
    """A request that no server would understand."""
    return ApiError(400, "invalid_request_error", message)
