// The documentation as a static site. Its pages are those of docs/, as they stand; docs/index.md is the table of contents.
import { readFileSync } from 'node:fs'
import { posix } from 'node:path'
import { entries } from '../api.mjs'
import { contents, slug } from '../contents.mjs'

const { repository, version } = JSON.parse(
  readFileSync(new URL('../../package.json', import.meta.url), 'utf8'),
)
const source = repository.url.replace(/^git\+/, '').replace(/\.git$/, '')
const sidebar = [
  ...contents().map(({ text, items }) => ({
    text,
    items: items.map((item) => ({ text: item.text, link: `/${item.link.replace(/\.md$/, '')}` })),
  })),
  { text: 'Types', items: entries.map(({ title, page }) => ({ text: title, link: `/${page}` })) },
]

const icon =
  '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 16 16"><circle cx="8" cy="8" r="7" fill="#3451b2"/><path d="M5 5l4 3-4 3M9 11h3" stroke="#fff" stroke-width="1.6" fill="none"/></svg>'

/** Links that lead out of docs, to an example or the changelog, lead to the repository. */
function linksOutside(markdown) {
  markdown.core.ruler.push('links-outside', ({ tokens, env }) => {
    for (const token of tokens.flatMap(({ children }) => children ?? [])) {
      const href = token.type === 'link_open' && token.attrGet('href')
      if (!href || /^(?:[a-z]+:|#|\/)/.test(href)) continue
      const path = posix.join('docs', posix.dirname(env.relativePath), href)
      if (!path.startsWith('docs/')) token.attrSet('href', `${source}/blob/main/${path}`)
    }
  })
}

export default {
  title: 'Sheepdog',
  description: 'Runs coding agents and other programs from Node.js, and leaves no process behind.',
  head: [['link', { rel: 'icon', href: `data:image/svg+xml,${encodeURIComponent(icon)}` }]],
  srcDir: 'pages',
  outDir: './dist',
  cleanUrls: true,
  lastUpdated: false,
  // `https://HOST/sheepdog/` needs `SHEEPDOG_DOCS_BASE=/sheepdog/`.
  base: process.env.SHEEPDOG_DOCS_BASE ?? '/',
  markdown: {
    anchor: { slugify: slug },
    config: linksOutside,
    // Blocks of the language `text` are output of programs.
    languageAlias: { '': 'text' },
    theme: { light: 'github-light-high-contrast', dark: 'github-dark-high-contrast' },
  },
  themeConfig: {
    search: { provider: 'local' },
    nav: [
      { text: 'Getting started', link: '/getting-started' },
      { text: 'Troubleshooting', link: '/troubleshooting' },
      { text: `v${version}`, link: `${source}/blob/main/CHANGELOG.md` },
    ],
    sidebar,
    outline: { level: [2, 3] },
    socialLinks: [{ icon: 'github', link: source }],
  },
}
