// Which processes of a run are alive, by looking at the process table: they carry a variable in their environment.
import { execFileSync } from 'node:child_process'
import { readFileSync, readdirSync } from 'node:fs'

export const markName = 'SHEEPDOG_DEMO_RUN'

/** `[{ pid, command }]` of all live processes that carry the mark, by pid. */
export function markedProcesses(mark) {
  const found = process.platform === 'linux' ? fromProc(mark) : fromPs(mark)
  return found.sort((left, right) => left.pid - right.pid)
}

function fromProc(mark) {
  return readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name))
    .flatMap((name) => {
      try {
        const variables = readFileSync(`/proc/${name}/environ`, 'latin1').split('\0')
        if (!variables.includes(`${markName}=${mark}`)) return []
        const command = readFileSync(`/proc/${name}/cmdline`, 'utf8').split('\0').join(' ').trim()
        return [{ pid: Number(name), command }]
      } catch {
        // It ended meanwhile, or is another user's.
        return []
      }
    })
}

function fromPs(mark) {
  const table = execFileSync('ps', ['-E', '-ww', '-ax', '-o', 'pid=,command='], {
    encoding: 'utf8',
    maxBuffer: 1 << 26,
  })
  return table
    .split('\n')
    .filter((line) => line.includes(`${markName}=${mark}`))
    .map((line) => ({
      pid: Number.parseInt(line, 10),
      command: line
        .trim()
        .replace(/^\d+\s+/, '')
        .split(' ', 3)
        .join(' '),
    }))
}
