// A turn that the core runs by itself, as channels and spans are told of it.
import type { NativeTurn } from '../../native/native'
import { TurnWatch, type TurnFacts } from '../observability/turn_watch'
import { Turn } from './turn'

export class SeenTurn {
  readonly #watch: TurnWatch

  /** None where nobody looks. */
  static start(facts: TurnFacts): SeenTurn | undefined {
    const watch = TurnWatch.start(facts, false)
    return watch && new SeenTurn(watch)
  }

  private constructor(watch: TurnWatch) {
    this.#watch = watch
  }

  /** Variables that are added to the agent's environment. */
  get environment(): Record<string, string> {
    return this.#watch.environment
  }

  /** `turn`: a handle that can't end it; or why it was never started. */
  show(turn: NativeTurn | Error): void {
    void new Turn(turn, undefined, undefined, this.#watch)
  }
}
