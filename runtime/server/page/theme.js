// @ts-check
// Light or dark: as the system says, or as the person has chosen.
import { draw, state } from './state.js'

const THEME_KEY = 'gristmill-theme'
const THEMES = ['system', 'light', 'dark']

export const theme = () => localStorage.getItem(THEME_KEY) ?? 'system'

export function applyTheme() {
  document.documentElement.dataset.theme = theme()
}

export function nextTheme() {
  localStorage.setItem(THEME_KEY, THEMES[(THEMES.indexOf(theme()) + 1) % THEMES.length])
  applyTheme()
  draw()
}

/** The title and the small picture of the tab say which server this is. */
export function nameTab(title) {
  const { name, colour } = state.about ?? {}
  const whole = [title, name, 'Gristmill'].filter(Boolean).join(' · ')
  if (whole === document.title) return
  document.title = whole
  const fill = encodeURIComponent(colour ?? '#0b5cad')
  const icon = `data:image/svg+xml,%3Csvg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 16 16'%3E%3Ccircle cx='8' cy='8' r='7' fill='${fill}'/%3E%3C/svg%3E`
  document.querySelector('link[rel=icon]')?.setAttribute('href', icon)
}

/** Black or white, whichever is read better on the colour. */
export function inkOn(colour) {
  const [red, green, blue] = [1, 3, 5].map((at) => (parseInt(colour.slice(at, at + 2), 16) / 255) ** 2.2)
  return 0.2126 * red + 0.7152 * green + 0.0722 * blue > 0.18 ? '#000' : '#fff'
}
