// Compiled by `npm run check`, never run: what the types say of errors.
import { type ErrorCode, type RunResult, run, SheepdogError, type TurnResult } from '../../index.js'

export async function narrowed(): Promise<void> {
  try {
    await run('true')
  } catch (error) {
    if (!(error instanceof SheepdogError)) throw error
    const code: ErrorCode = error.code
    // Whatever the code, the result may be there.
    const result: RunResult | TurnResult | undefined = error.result
    // And its kind, where it has one.
    const isAuth: boolean = error.kind === 'auth'
    // @ts-expect-error: what other fields there are depends on the code
    void error.idleTimeoutMs
    // @ts-expect-error: no such code
    void (error.code === 'PROCES_IDLE')

    if (error.code === 'PROCESS_IDLE') {
      const stdout: string = error.result.stdout
      const idleTimeoutMs: number = error.idleTimeoutMs
      // @ts-expect-error: of another code
      void error.timeoutMs
      void [stdout, idleTimeoutMs]
    }
    switch (error.code) {
      case 'AGENT_FAILED': {
        // An agent that failed before a turn has no result.
        const text: string | undefined = error.result?.text
        // @ts-expect-error: no such kind
        void (error.kind === 'rate-limit')
        void [text, error.kind === 'rate_limit']
        break
      }
      case 'PROCESS_TIMED_OUT':
      case 'PROCESS_ABORTED':
        // @ts-expect-error: a run that never began has no result
        void error.result.exitCode
        void error.result?.exitCode
        break
      case 'INVALID_OPTION': {
        const none: undefined = error.result
        void none
        break
      }
    }
    void [code, result, isAuth, error.stack, error.cause, error.toJSON()]
  }
}

export function fixed(error: SheepdogError): void {
  // @ts-expect-error: what happened is not to be changed
  error.code = 'PROCESS_IDLE'
}
