"""Is the reward function fit for training? Which one: --cwsandbox-reward, here `code_reward`."""

from pytest_cwsandbox.validation.test_reward_function import *  # noqa: F403 - every check is an item
