// Waiting and choosing: used by the trials that have a table of cases.

export const wait = (ms) => new Promise((resolve) => setTimeout(resolve, ms))

/** The result of a case, or an error when it takes longer than this. */
export async function within(ms, promise) {
  let timer
  const late = new Promise((_, reject) => {
    timer = setTimeout(() => reject(new Error(`not done after ${ms / 1000} s`)), ms)
  })
  return Promise.race([promise, late]).finally(() => clearTimeout(timer))
}

/** Those that the command line names, or all. */
export function chosen(names, words) {
  const some = names.filter((name) => words.includes(name))
  return some.length > 0 ? some : names
}
