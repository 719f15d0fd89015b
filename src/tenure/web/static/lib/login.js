/** The login page: by the link that the server printed, or by an access token. */
import { api, introduce, locked } from "./api.js";
import { html, useState } from "./ui.js";

export const Login = () => (locked.value?.answer.door === "link" ? html`<${ByLink} />` : html`<${ByToken} />`);

/** Nothing to fill in: the server's sentence says which link to open. */
const ByLink = () => html`
  <main class="login" id="main">
    <section class="panel">
      <h1>Tenure</h1>
      <p role="status">${words(locked.value?.message ?? "")}</p>
      <p class="quiet">Each link lets one browser in. When it is used, the next one is printed.</p>
    </section>
  </main>
`;

/** Text in backquotes is code. @param {string} sentence */
const words = (sentence) => sentence.split("`").map((part, n) => (n % 2 ? html`<code>${part}</code>` : part));

function ByToken() {
  const [fault, setFault] = useState("");
  const enter = async (/** @type {SubmitEvent} */ event) => {
    event.preventDefault();
    const form = new FormData(/** @type {HTMLFormElement} */ (event.target));
    const [name, token] = [form.get("name"), form.get("token")];
    try {
      await api("api/login", { method: "POST", body: name ? { name, token } : { token } });
      await introduce();
    } catch (error) {
      setFault(/** @type {Error} */ (error).message);
    }
  };
  return html`
    <main class="login" id="main">
      <form class="panel" onSubmit=${enter}>
        <h1>Tenure</h1>
        <p class="quiet">Log in to this server.</p>
        <label class="field">
          Name (only with a password)
          <input type="text" name="name" autocomplete="username" />
        </label>
        <label class="field">
          Access token or password
          <input type="password" name="token" autocomplete="current-password" required autofocus />
        </label>
        <p class="wrong" role="alert">
          ${fault}
        </p>
        <button class="button primary" type="submit">
          Log in
        </button>
        ${locked.value?.answer.oidc && html`
          <p>
            <a class="button" href="api/oidc/login">
              Log in with single sign-on
            </a>
          </p>
        `}
      </form>
    </main>
  `;
}
