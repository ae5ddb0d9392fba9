"use strict";

/* Light or dark: as the system has it until the button is pressed. */
{
  const root = document.documentElement;
  const button = document.getElementById("theme");
  const system = matchMedia("(prefers-color-scheme: dark)");

  const remembered = () => {
    try {
      return localStorage.getItem("cwsandbox-theme");
    } catch {
      return null; // a browser may keep storage from files
    }
  };
  const remember = (theme) => {
    try {
      localStorage.setItem("cwsandbox-theme", theme);
    } catch {
      // then the choice lasts as long as the page
    }
  };
  const dark = () => (root.dataset.theme ? root.dataset.theme === "dark" : system.matches);
  const label = () => {
    button.textContent = dark() ? "Light" : "Dark";
    button.setAttribute("aria-label", `Show the page ${dark() ? "light" : "dark"}`);
  };

  const theme = remembered();
  if (theme === "dark" || theme === "light") root.dataset.theme = theme;
  button.hidden = false;
  button.addEventListener("click", () => {
    root.dataset.theme = dark() ? "light" : "dark";
    remember(root.dataset.theme);
    label();
  });
  system.addEventListener("change", label);
  label();
}
