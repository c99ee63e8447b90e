import type { NativeBudget } from '../../native/native'
import { invalidOption } from '../error'
import { native } from '../native'
import { check, checkOptions, show } from '../option'

/** What a million tokens cost, in US dollars. */
export interface Prices {
  inputPerMillion: number
  outputPerMillion: number
  /** Of tokens that were read from a cache; default: as other input. */
  cachedPerMillion?: number
}

/** How much may be used. */
export interface BudgetOptions {
  /** `inputTokens` plus `outputTokens`, as `usage` tells them. */
  maxTokens?: number
  /** By the prices where there are any, else by what the CLI says that it cost. */
  maxCostUsd?: number
  /** For turns that have no prices of their own. */
  prices?: Prices
}

function price(path: string, value: unknown): void {
  if (typeof value !== 'number' || !Number.isFinite(value) || value < 0) {
    throw invalidOption(path, `expected a finite number of dollars >= 0, got ${show(value)}`)
  }
}

const priceChecks = { inputPerMillion: price, outputPerMillion: price, cachedPerMillion: price }

/** The checks of a budget's own options, and of a turn's. */
export const budgetChecks = {
  maxTokens: check.count,
  maxCostUsd(path: string, value: unknown) {
    if (typeof value !== 'number' || !Number.isFinite(value) || value <= 0) {
      throw invalidOption(path, `expected a finite number of dollars > 0, got ${show(value)}`)
    }
  },
  prices(path: string, value: unknown) {
    check.object(path, value)
    checkOptions(value, priceChecks, path)
    const prices = value as Partial<Prices>
    for (const name of ['inputPerMillion', 'outputPerMillion'] as const) {
      if (prices[name] === undefined) throw invalidOption(`${path}.${name}`, 'is missing')
    }
  },
}

const natives = new WeakMap<Budget, NativeBudget>()

/**
 * So much for all turns and sessions that share it, at once or one after another. What crosses it is ended: AGENT_BUDGET. One
 * that is used up lets nothing begin.
 *
 * @example
 * const budget = new Budget({ maxTokens: 2_000_000 })
 * const codex = new Harness({ provider: 'codex', budget })
 */
export class Budget {
  constructor(options: BudgetOptions) {
    check.object('options', options)
    checkOptions(options, budgetChecks)
    natives.set(this, new native.NativeBudget(options))
  }

  /** Input and output tokens of all turns so far, those that still run among them. */
  get usedTokens(): number {
    return nativeBudget(this).usedTokens
  }

  /** US dollars so far, by the prices or as the CLIs say; 0 for those that tell neither. */
  get usedCostUsd(): number {
    return nativeBudget(this).usedCostUsd
  }

  /** What may still be used, never less than 0; Infinity where there is no cap. */
  get remaining(): { tokens: number; costUsd: number } {
    const { tokensLeft, costUsdLeft } = nativeBudget(this)
    return { tokens: tokensLeft, costUsd: costUsdLeft }
  }
}

/** @internal */
export function nativeBudget(budget: Budget): NativeBudget {
  return natives.get(budget)!
}

/** @internal What is no Budget can't be counted in. */
export function checkBudget(path: string, value: unknown): void {
  if (!(value instanceof Budget)) throw invalidOption(path, `expected a Budget, got ${show(value)}`)
}
