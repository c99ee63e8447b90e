// Git, npm, yarn, pip, cargo, Java and curl: with a token that they never see, at a registry on loopback; then at the registries of this machine, whose
// names are found by what the sandbox refuses.
import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:https'
import { createRequire } from 'node:module'
import { lookup } from 'node:dns/promises'
import { homedir, tmpdir } from 'node:os'
import { join } from 'node:path'
import { FAILED, runCase } from '../cases.mjs'
import { KEY, identity, listed, listening, name as host } from './outside.mjs'

const { run: start } = createRequire(import.meta.url)('../../index.js')
const CALL_MS = 180_000
const CASE_MS = 300_000

/** A command, and the names of the programs without which it is not tried. `$TOKEN` is the placeholder. */
const commands = {
  curl: { text: 'curl -sS -H "Authorization: Bearer $TOKEN" BASE/files/hello', expected: /^hello$/ },
  'curl with a password': { text: 'curl -sS -u user:$TOKEN BASE/files/hello', expected: /^hello$/ },
  'git clone': {
    text: 'git clone -q https://user:$TOKEN@HOST/repository.git out && cat out/file',
    expected: /^content$/,
  },
  'npm install': {
    text: 'npm install --no-audit --no-fund --fetch-retries=0 --loglevel=error small-package && node -p "require(\'small-package\')"',
    expected: /installed/,
  },
  'pip install': {
    text: '"$PYTHON" -m pip install -q --root-user-action=ignore --no-deps --disable-pip-version-check --index-url https://user:$TOKEN@HOST/simple --target out small-package && python3 -c "import sys; sys.path.insert(0, \'out\'); import small_package; print(small_package.VALUE)"',
    expected: /^installed$/,
  },
  cargo: {
    text: 'cd crate && CARGO_REGISTRIES_OWN_TOKEN="Bearer $TOKEN" cargo fetch -q && find "$CARGO_HOME/registry/src" -name lib.rs | xargs cat',
    expected: /installed/,
  },
  yarn: {
    text: 'node "$YARN" add small-package >yarn.log 2>&1 || { cat yarn.log >&2; exit 1; }; node -p "require(\'small-package\')"',
    expected: /installed/,
  },
  // Java reads no variables: it gets the proxy and the authority as properties.
  java: {
    text: `proxy=\${HTTPS_PROXY##*@} && proxy=\${proxy%/} &&
      keytool -importcert -noprompt -file "$NODE_EXTRA_CA_CERTS" -keystore trust.p12 -storepass changeit 2>/dev/null &&
      java -Dhttps.proxyHost=\${proxy%:*} -Dhttps.proxyPort=\${proxy#*:} -Djavax.net.ssl.trustStore=trust.p12 -Djavax.net.ssl.trustStorePassword=changeit Get.java BASE/files/hello`,
    expected: /^hello$/,
  },
}

const programOf = (command) => command.split(' ')[0]
const isThere = (program) =>
  program === 'yarn' ? yarn() !== undefined : spawnSync(program, ['--version']).error === undefined

const yarnFolder = mkdtempSync(join(tmpdir(), 'egress-yarn-'))
process.on('exit', () => rmSync(yarnFolder, { recursive: true, force: true }))
/** Yarn of today, which no `npm install --global yarn` gives; undefined where the registry has none. */
function yarn() {
  const file = join(yarnFolder, 'node_modules/@yarnpkg/cli-dist/bin/yarn.js')
  if (!existsSync(file))
    spawnSync('npm', ['install', '--no-audit', '--no-fund', '--prefix', yarnFolder, '@yarnpkg/cli-dist'])
  return existsSync(file) ? file : undefined
}

const GET = `
import java.net.*;
class Get {
  public static void main(String[] args) throws Exception {
    var connection = (HttpURLConnection) new URL(args[0]).openConnection();
    connection.setRequestProperty("Authorization", "Bearer " + System.getenv("TOKEN"));
    System.out.write(connection.getInputStream().readAllBytes());
    System.out.flush();
  }
}`

/** Files of a registry of each kind, below `folder`. */
function publish(folder, base) {
  const make = (path, content) => {
    mkdirSync(join(folder, path, '..'), { recursive: true })
    writeFileSync(join(folder, path), content)
  }
  const shell = (text, cwd = folder) => {
    const { status, stderr } = spawnSync('sh', ['-c', text], { cwd, encoding: 'utf8' })
    assert.equal(status, 0, `${text}: ${stderr}`)
  }
  const sum = (path) =>
    createHash('sha256')
      .update(readFileSync(join(folder, path)))
      .digest('hex')
  make('files/hello', 'hello')
  make('source/file', 'content')
  const git = 'git -c user.name=n -c user.email=e@example.com -c init.defaultBranch=main'
  shell(`${git} init -q && ${git} add . && ${git} commit -qm one`, join(folder, 'source'))
  shell(`${git} clone -q --bare source repository.git && cd repository.git && git update-server-info`)
  make('package/package.json', JSON.stringify({ name: 'small-package', version: '1.0.0' }))
  make('package/index.js', "module.exports = 'installed'")
  shell('tar czf files/small-package.tgz package')
  const dist = { tarball: `${base}/files/small-package.tgz` }
  const versions = { '1.0.0': { name: 'small-package', version: '1.0.0', dist } }
  make('small-package', JSON.stringify({ name: 'small-package', 'dist-tags': { latest: '1.0.0' }, versions }))
  const wheel = 'small_package-1.0.0-py3-none-any.whl'
  const python = `
import zipfile
with zipfile.ZipFile('files/${wheel}', 'w') as wheel:
    wheel.writestr('small_package.py', "VALUE = 'installed'\\n")
    wheel.writestr('small_package-1.0.0.dist-info/METADATA', 'Metadata-Version: 2.1\\nName: small-package\\nVersion: 1.0.0\\n')
    wheel.writestr('small_package-1.0.0.dist-info/WHEEL', 'Wheel-Version: 1.0\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n')
    wheel.writestr('small_package-1.0.0.dist-info/RECORD', '')`
  if (isThere('python3')) {
    assert.equal(spawnSync('python3', ['-c', python], { cwd: folder }).status, 0)
    make('simple/small-package/index.html', `<a href="/files/${wheel}">${wheel}</a>`)
  }
  make(
    'small-crate-1.0.0/Cargo.toml',
    '[package]\nname = "small-crate"\nversion = "1.0.0"\nedition = "2021"\n',
  )
  make('small-crate-1.0.0/src/lib.rs', '// installed\n')
  shell('tar czf files/small-crate.crate small-crate-1.0.0')
  make(
    'index/config.json',
    JSON.stringify({ dl: `${base}/files/{crate}.crate`, api: base, 'auth-required': true }),
  )
  const entry = {
    name: 'small-crate',
    vers: '1.0.0',
    deps: [],
    cksum: sum('files/small-crate.crate'),
    features: {},
    yanked: false,
  }
  make('index/sm/al/small-crate', `${JSON.stringify(entry)}\n`)
}

const registryOfNpm = () =>
  spawnSync('npm', ['config', 'get', 'registry'], { encoding: 'utf8' }).stdout.trim().replace(/\/$/, '')

/** A folder for a program, with a home of its own. */
function workplace(base) {
  const cwd = mkdtempSync(join(tmpdir(), 'egress-tools-'))
  const write = (path, text) => {
    mkdirSync(join(cwd, path, '..'), { recursive: true })
    writeFileSync(join(cwd, path), text)
  }
  write('home/.keep', '')
  const dependency = base ? 'small-crate = { version = "1", registry = "own" }' : 'cfg-if = "1"'
  write('package.json', '{ "private": true }')
  write('Get.java', GET)
  write(
    '.yarnrc.yml',
    'nodeLinker: node-modules\nenableGlobalCache: false\nenableTelemetry: false\nnpmMinimalAgeGate: 0\n',
  )
  write('yarn.lock', '')
  write(
    'crate/Cargo.toml',
    `[package]\nname = "c"\nversion = "0.1.0"\nedition = "2021"\n[dependencies]\n${dependency}\n`,
  )
  if (base) {
    write('.npmrc', `registry=${base}/\n//${base.replace('https://', '')}/:_authToken=\${TOKEN}\n`)
    write(
      '.cargo/config.toml',
      `[registries.own]\nindex = "sparse+${base}/index/"\n[registry]\nglobal-credential-providers = ["cargo:token"]\n`,
    )
  }
  write('crate/src/lib.rs', '')
  const home = join(cwd, 'home')
  const env = {
    HOME: home,
    // Yarn unpacks there.
    TMPDIR: home,
    CARGO_HOME: join(home, 'cargo'),
    RUSTUP_HOME: process.env.RUSTUP_HOME ?? join(homedir(), '.rustup'),
    GIT_CONFIG_GLOBAL: join(home, 'none'),
    PIP_FIND_LINKS: '',
    // Not a launcher in its place, which writes into its own folder after each installation.
    PYTHON: spawnSync('python3', ['-c', 'import sys; print(sys.executable)'], {
      encoding: 'utf8',
    }).stdout?.trim(),
    npm_config_cache: join(home, 'npm'),
    YARN: isThere('yarn') ? yarn() : undefined,
    YARN_NPM_REGISTRY_SERVER: base ?? registryOfNpm(),
    ...(base && { YARN_NPM_AUTH_TOKEN: KEY, YARN_NPM_ALWAYS_AUTH: 'true' }),
    GIT_TERMINAL_PROMPT: '0',
  }
  return { cwd, env, remove: () => rmSync(cwd, { recursive: true, force: true }) }
}

async function atLoopback(words, rows) {
  const folder = mkdtempSync(join(tmpdir(), 'egress-registry-'))
  const keys = new Map()
  let caller
  const server = createServer(identity(), ({ url, headers }, response) => {
    const sent = headers.authorization ?? ''
    const key = sent.startsWith('Basic ') ? Buffer.from(sent.slice(6), 'base64').toString() : sent
    if (key) keys.set(caller, key)
    if (!key.includes(KEY)) return response.writeHead(401, { 'www-authenticate': 'Basic realm="own"' }).end()
    const { pathname } = new URL(url, 'https://a.example')
    const path = join(folder, pathname.endsWith('/') ? `${pathname}index.html` : pathname)
    if (!existsSync(path) || statSync(path).isDirectory()) return response.writeHead(404).end()
    if (path.endsWith('.html')) response.setHeader('content-type', 'text/html')
    // The server repeats the key, so that the proxy has to hide it.
    response.setHeader('x-seen', key)
    response.end(readFileSync(path))
  })
  const port = await listening(server)
  const [place, base] = [`${host}:${port}`, `https://${host}:${port}`]
  publish(folder, base)
  for (const [title, { text, expected }] of Object.entries(commands)) {
    if (words.length > 0 && !words.includes(programOf(title))) continue
    if (!isThere(programOf(title))) {
      console.log(`MISSING ${programOf(title)}: "${title}" was not tried`)
      rows.push([title, 'missing', ''])
      continue
    }
    const { cwd, env, remove } = workplace(base)
    caller = title
    const line = text.replaceAll('BASE', base).replaceAll('HOST', place)
    const network = { hosts: listed(port), secrets: { TOKEN: { value: KEY, hosts: [place] } } }
    const { word, error } = await runCase(title, CASE_MS, async () => {
      const { stdout, stderr, exitCode, sandbox } = await start('sh', ['-c', line], {
        cwd,
        env,
        timeoutMs: CALL_MS,
        sandbox: { write: ['.'], network },
      })
      assert.equal(exitCode, 0, stderr)
      assert.match(stdout.trim(), expected)
      assert.ok(keys.get(title)?.includes(KEY), 'the key did not arrive')
      assert.ok(!(stdout + stderr).includes(KEY), 'the program saw the key')
      assert.ok(spawnSync('grep', ['-rqF', KEY, cwd]).status === 1, 'the key is in a file')
      return `${sandbox.refused.length}, refused`
    })
    remove()
    rows.push([title, error ? FAILED : 'ok', word ?? ''])
  }
  server.close()
  server.closeAllConnections()
  rmSync(folder, { recursive: true })
}

const ordinary = {
  npm: 'npm install --no-audit --no-fund --fetch-retries=0 --loglevel=error ms && node -p "require(\'ms\')(1000)"',
  yarn: 'node "$YARN" add ms && node -p "require(\'ms\')(1000)"',
  pip: '"$PYTHON" -m pip install -q --root-user-action=ignore --no-deps --no-cache-dir --retries 0 --disable-pip-version-check --target out iniconfig && ls out',
  cargo: 'cd crate && cargo fetch -q && ls "$CARGO_HOME"/registry/src/*',
}
const INSTALLED = { npm: /1s/, yarn: /1s/, pip: /iniconfig/, cargo: /cfg-if/ }
/** Hosts that a program asks for one after another. */
const MOST_HOSTS = 8

/** A program at the registry of this machine, with no more hosts than it was refused before. */
async function atRegistry(program, isLookedInto) {
  const hosts = []
  for (let tries = 0; tries <= MOST_HOSTS; tries++) {
    const { cwd, env, remove } = workplace()
    try {
      const secrets = { UNUSED_TOKEN: { value: KEY, hosts: [...hosts] } }
      const network = isLookedInto && hosts.length > 0 ? { hosts, secrets } : { hosts }
      const { stdout, stderr, exitCode, sandbox } = await start('sh', ['-c', ordinary[program]], {
        cwd,
        env,
        timeoutMs: CALL_MS,
        sandbox: { write: ['.'], network },
      })
      if (exitCode === 0) {
        assert.match(stdout, INSTALLED[program])
        return `ok, ${hosts.length} hosts`
      }
      const wanted = sandbox.refused
        .map(({ what }) => what.split(/[: ]/)[0])
        .filter((host) => !hosts.includes(host))
      const more = wanted.length > 0 ? wanted : await Promise.all(hosts.map(addressOf))
      const news = more.filter((host) => host && !hosts.includes(host))
      assert.ok(news.length > 0, `${stdout}\n${stderr}`.trim().split('\n').slice(-3).join(' / '))
      hosts.push(...news)
    } finally {
      remove()
    }
  }
  throw new Error(`it asked for more than ${MOST_HOSTS} hosts`)
}

/** A registry may have an address of the user's own network, which has to be listed itself. */
const addressOf = (host) =>
  lookup(host).then(
    ({ address }) => address,
    () => undefined,
  )

export async function run(words) {
  const rows = [['command', 'outcome', 'other hosts that it asked for']]
  await atLoopback(words, rows)
  for (const program of Object.keys(ordinary).filter((name) => words.length === 0 || words.includes(name))) {
    for (const isLookedInto of [false, true]) {
      const title = `${program} at this machine's registry, ${isLookedInto ? 'looked into' : 'not looked into'}`
      if (!isThere(program)) {
        console.log(`MISSING ${program}`)
        continue
      }
      const test = () => atRegistry(program, isLookedInto)
      const { word = FAILED } = await runCase(title, CASE_MS * MOST_HOSTS, test)
      rows.push([title, word, ''])
    }
  }
  return { rows, isWhole: words.length === 0 }
}
