// Checks the links of a built site: each that leads to the site itself has a file there, and its heading.
import { existsSync, readFileSync, readdirSync, statSync } from 'node:fs'
import { join, posix } from 'node:path'

const attributes = (html, name) =>
  [...html.matchAll(new RegExp(`\\s${name}="([^"]*)"`, 'g'))].map(([, value]) => value.replaceAll('&amp;', '&'))

/** The file that a static server answers a path with: `/a` is a.html or a/index.html. */
export function fileOf(folder, path) {
  const candidates = [path, `${path}.html`, posix.join(path, 'index.html')].map((name) => join(folder, name))
  return candidates.find((file) => existsSync(file) && statSync(file).isFile())
}

/** Every broken link, as `page: link`. `base` is the path that the site is served below. */
export function checkSite(folder, base = '/') {
  const pages = readdirSync(folder, { recursive: true, encoding: 'utf8' }).filter(
    (name) => name.endsWith('.html') && name !== '404.html',
  )
  const texts = new Map()
  const textOf = (file) => {
    if (!texts.has(file)) texts.set(file, readFileSync(file, 'utf8'))
    return texts.get(file)
  }
  const broken = []
  let links = 0
  for (const page of pages) {
    const html = textOf(join(folder, page))
    for (const link of [...attributes(html, 'href'), ...attributes(html, 'src')]) {
      const url = new URL(link, new URL(page.replaceAll('\\', '/'), `http://site${base}`))
      if (url.host !== 'site') continue
      links++
      const path = decodeURIComponent(url.pathname)
      const file = path.startsWith(base) && fileOf(folder, path.slice(base.length) || 'index.html')
      const anchor = decodeURIComponent(url.hash.slice(1))
      const isThere = file && (anchor === '' || attributes(textOf(file), 'id').includes(anchor))
      if (!isThere) broken.push(`${page}: ${link}`)
    }
  }
  return { broken, files: pages.length, links }
}
