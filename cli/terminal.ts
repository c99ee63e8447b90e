// A program on a terminal of its own, seen through ours: keys go in as they are typed, and its size follows ours.
import type { ProcessStdin, RunningProcess } from '../lib/index'

/** Our terminal's, for the program's. None: its usual one. */
export function terminalSize(): { columns: number; rows: number } | true {
  const { columns, rows } = process.stdout
  return columns > 0 && rows > 0 ? { columns, rows } : true
}

/** Passes on what is typed, raw: Ctrl-C is a key of the program's terminal then. The returned function gives our terminal back. */
export function typeInto(child: RunningProcess & { readonly stdin?: ProcessStdin }): () => void {
  const { stdin, stdout } = process
  const onResize = () => child.resize(stdout.columns, stdout.rows)
  if (stdout.isTTY) stdout.on('resize', onResize)
  let isOver = false
  const onKeys = (keys: Buffer) => {
    // One after the other; a program that takes no more is no error. What was its last key may be told to be taken only after
    // its end: read on then, our terminal would keep this process alive.
    stdin.pause()
    child.stdin?.write(keys).then(
      () => {
        if (!isOver) stdin.resume()
      },
      () => {},
    )
  }
  if (stdin.isTTY) stdin.setRawMode(true).on('data', onKeys)
  return () => {
    isOver = true
    stdout.off('resize', onResize)
    if (!stdin.isTTY) return
    stdin.off('data', onKeys).setRawMode(false).pause()
  }
}
