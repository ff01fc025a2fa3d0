// @ts-check
// The keys, and what this server is.
import { KEYS } from '../keys.js'
import { html } from '../html.js'
import { Facts, Table } from '../parts.js'
import { state } from '../state.js'

const QUERIES = `state:ready,dead topic:mail* id: key: unique: priority:high worker:
reason:timeout code: message: group: attempts>2
age>1h died<1h due<10m meta.order:17 body.user.id:42 "any text"`

/** @type {import('./all.js').Page} */
export const help = {
  title: () => 'Help',
  view: () => html`
    <h2>Keys</h2>
    <${Table} label="Keys" heads=${['Key', 'What it does']} rows=${KEYS.map(([keys, what]) => [keys, keys.split(' ').map((key) => html`<kbd>${key}</kbd> `), what])} />
    <h2>Queries</h2>
    <p>All conditions hold; a comma means or, <code>-</code> not, <code>*</code> any characters, quotes keep blanks.</p>
    <pre class="text" tabindex="0">${QUERIES}</pre>
    <h2>This server</h2>
    <${Facts} of=${[
      ['Version', state.about?.version],
      ['Store', state.about?.store],
      ['Your token', state.me?.token ? `${state.me.token.id} ${state.me.token.description}` : 'none is needed'],
      ['It allows', state.me?.scopes.join(', ')],
    ]} />
    <p class="none">This page is made with Preact (MIT) and htm (Apache-2.0).</p>`,
}
