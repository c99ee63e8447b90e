// RPC by path: `rpc.a.b(params)` is the request "a.b". Methods that the schemas name are own properties, so that they can be
// listed, replaced and spied upon as those of any object; newer ones are made when they are asked for.

type Request = (method: string, params: unknown) => Promise<unknown>
type Call = (params?: unknown) => Promise<unknown>

/** A tree of methods; `known` are their paths. */
export function rpcTree<T>(request: Request, known: readonly string[]): T {
  const callOf =
    (path: string): Call =>
    async (params) =>
      // Awaited, so that an error's stack leads through here to the caller.
      await request(path, params ?? {})
  const groups = new Map<string, object>()
  const groupOf = (path: string): object => {
    let group = groups.get(path)
    if (!group) {
      group = withNewer({}, path, request)
      groups.set(path, group)
      if (path !== '') own(groupOf(path.slice(0, Math.max(path.lastIndexOf('.'), 0))), path, group)
    }
    return group
  }
  const root = groupOf('')
  for (const path of known)
    own(groupOf(path.slice(0, Math.max(path.lastIndexOf('.'), 0))), path, callOf(path))
  return root as T
}

function own(group: object, path: string, value: unknown): void {
  const name = path.slice(path.lastIndexOf('.') + 1)
  // Not by assignment: a method may be called as something that every object has.
  Object.defineProperty(group, name, { value, writable: true, enumerable: true, configurable: true })
}

/** A name that is not there is a method, or a group of them, that this version does not know. */
function withNewer<T extends object>(target: T, path: string, request: Request): T {
  const newer = new Map<string, unknown>()
  return new Proxy(target, {
    get(held, name) {
      // A tree is no promise, and has no symbols.
      if (typeof name !== 'string' || name === 'then' || name === 'toJSON') return Reflect.get(held, name)
      if (Object.hasOwn(held, name) || (typeof held !== 'function' && name in held))
        return Reflect.get(held, name)
      let branch = newer.get(name)
      if (!branch) {
        const inner = path ? `${path}.${name}` : name
        // An arrow function has neither a prototype nor, as a target of its own, anything of Function's: `apply`, `call` and
        // `bind` are methods of the runtime here.
        const call: Call = async (params) => await request(inner, params ?? {})
        for (const own of ['name', 'length']) Reflect.deleteProperty(call, own)
        newer.set(name, (branch = withNewer(call, inner, request)))
      }
      return branch
    },
  })
}
