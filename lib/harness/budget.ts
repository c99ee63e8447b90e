import type { NativeBudget } from '../../native/native'
import { invalidOption } from '../error'
import { native } from '../native'
import { check, checkOptions } from '../option'

/** Price of a model's tokens, in US dollars for a million tokens. */
export interface Prices {
  /** Price of a million input tokens. */
  inputPerMillion: number
  /** Price of a million output tokens. */
  outputPerMillion: number
  /**
   * Price of a million tokens that were read from a cache.
   *
   * @default the price of other input tokens
   */
  cachedPerMillion?: number
}

/** Limits of a `Budget`. */
export interface BudgetOptions {
  /**
   * Largest number of tokens: `inputTokens` plus `outputTokens`, as `usage` reports them.
   *
   * @default no limit
   */
  maxTokens?: number
  /**
   * Largest cost, in US dollars. It is computed from `prices`, or, without prices, reported by the
   * agent CLI.
   *
   * @default no limit
   */
  maxCostUsd?: number
  /** Prices for turns that have no `prices` of their own. */
  prices?: Prices
}

const isDollars = (value: unknown) => Number.isFinite(value) && (value as number) >= 0
const price = check.expected('a finite number of dollars >= 0', isDollars)
const priceChecks = { inputPerMillion: price, outputPerMillion: price, cachedPerMillion: price }

/** The checks of a budget's own options, and of a turn's. */
export const budgetChecks = {
  maxTokens: check.count,
  maxCostUsd: check.expected(
    'a finite number of dollars > 0',
    (value) => isDollars(value) && (value as number) > 0,
  ),
  prices: check.fields(priceChecks, 'inputPerMillion', 'outputPerMillion'),
}

const natives = new WeakMap<Budget, NativeBudget>()

/**
 * A limit on tokens or money that several turns and sessions share. A turn that crosses it is ended and
 * rejects with AGENT_BUDGET. When nothing is left, no turn starts.
 *
 * @example
 * const budget = new Budget({ maxTokens: 2_000_000 })
 * const codex = new Harness({ provider: 'codex', budget })
 */
export class Budget {
  /** @throws INVALID_OPTION for a wrong limit or price. */
  constructor(options: BudgetOptions) {
    check.object('options', options)
    checkOptions(options, budgetChecks)
    if (options.maxTokens === undefined && options.maxCostUsd === undefined)
      throw invalidOption(
        'options',
        'a budget needs `maxTokens` or `maxCostUsd`: without one it limits nothing',
      )
    natives.set(this, new native.NativeBudget(options))
  }

  /** Input and output tokens of all turns so far, including turns that still run. */
  get usedTokens(): number {
    return nativeBudget(this).usedTokens
  }

  /**
   * US dollars so far, from the prices or as the CLIs report them. A CLI that reports neither cost nor
   * has prices counts 0.
   */
  get usedCostUsd(): number {
    return nativeBudget(this).usedCostUsd
  }

  /** The rest of the budget. Each value is at least 0, and Infinity where there is no limit. */
  get remaining(): {
    /** Tokens that may still be used. */
    tokens: number
    /** US dollars that may still be used. */
    costUsd: number
  } {
    const { tokensLeft, costUsdLeft } = nativeBudget(this)
    return { tokens: tokensLeft, costUsd: costUsdLeft }
  }
}

export function nativeBudget(budget: Budget): NativeBudget {
  return natives.get(budget)!
}

/** @internal What is no Budget can't be counted in. */
export const checkBudget = check.expected('a Budget', (value) => value instanceof Budget)
