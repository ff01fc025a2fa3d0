// @ts-check
// Two things that come before the page: a question, and the form that asks for a token.
import { act } from './actions.js'
import { keepToken } from './api.js'
import { html } from './html.js'
import { Button, Field, Form, Words } from './parts.js'
import { draw, state } from './state.js'

/** Opens as a modal dialog: the browser keeps the focus in it and closes it on Escape. */
const open = (element) => element && !element.open && element.showModal()

function close() {
  state.dialog = null
  draw()
}

function confirm(question, form) {
  close()
  act(() => question.run(form))
}

export function Dialog() {
  const question = state.dialog
  return question && html`
    <dialog ref=${open} onClose=${close} aria-labelledby="question">
      <h2 id="question">${question.title}</h2>
      <p class="text">${question.text}</p>
      <${Form} run=${(form) => confirm(question, form)}>
        ${question.fields}
        <p class="actions"><button class="main">${question.verb}</button><${Button} run=${close} focus=${!question.fields}>Leave it<//></p>
      <//>
    </dialog>`
}

function enter(form) {
  keepToken(String(form.get('token')).trim())
  location.reload()
}

export const Login = () => html`
  <main class="login" id="main">
    <h1>Gristmill</h1>
    <p role="alert"><${Words} of=${state.login} /></p>
    <${Form} run=${enter} verb="Log in">
      <${Field} label="Token" hint="It stays in this tab and is sent to this server only."><input name="token" type="password" autocomplete="off" required /><//>
    <//>
    <p class="none"><code>gristmill token create</code> makes one.</p>
  </main>`
