// @ts-check
// Writes elements as tagged templates. Every text that goes into one stays text.
import { h } from './vendor/preact.js'
import htm from './vendor/htm.js'

/** @type {(strings: TemplateStringsArray, ...values: any[]) => any} */
export const html = htm.bind(h)
