// The same as index.d.ts, for `import` under Node's own rules.
import * as sheepdog from './index.js'
export * from './index.js'
export default sheepdog
