// Permissions: what the agent asks, and what may be answered.
import { check } from '../option'
import type {
  PermissionDecisionContext,
  PermissionDecisionRequest,
  PermissionRequest as GeneratedRequest,
} from './generated'

/** A tool call for which the agent asks permission. */
export type PermissionRequest = GeneratedRequest & { readonly managedApprovalRequired?: boolean }

/** Decision on a permission request. `"no-result"` leaves the question open for another client. */
export type PermissionRequestResult = PermissionDecisionRequest['result'] | { kind: 'no-result' }

/** A decision with information about what made it. */
export interface AttributedPermissionResult {
  /** Kind of the result. */
  kind: 'attributed'
  /** The decision. */
  result: PermissionRequestResult
  /** How and where the decision was made. */
  decisionContext: PermissionDecisionContext
}

/**
 * Decides on permission requests. When it throws, the runtime is told that the user is not available.
 */
export type PermissionHandler = (
  request: PermissionRequest,
  invocation: { sessionId: string; managedSettingsEnabled?: boolean },
) =>
  | Promise<PermissionRequestResult | AttributedPermissionResult>
  | PermissionRequestResult
  | AttributedPermissionResult

/** Adds to a decision how and where it was made. */
export function createAttributedPermissionResult(
  result: PermissionRequestResult | AttributedPermissionResult,
  decisionContext: PermissionDecisionContext,
): AttributedPermissionResult {
  check.object('result', result)
  return {
    kind: 'attributed',
    result: result.kind === 'attributed' ? result.result : result,
    decisionContext,
  }
}

/**
 * A permission handler that allows everything, each call once. Requests that managed settings reserve
 * for people stay open.
 */
export const approveAll: PermissionHandler = (request, invocation) => {
  if (invocation.managedSettingsEnabled)
    throw new Error('approveAll cannot be used when managed settings are enabled')
  return request.managedApprovalRequired ? { kind: 'no-result' } : { kind: 'approve-once' }
}

/** Values of `ManagedSettingsPermissions.disableBypassPermissionsMode`. */
export const DisableBypassPermissionsModes = {
  /** No bypass at all. */
  Disable: 'disable',
  /** Only the automatic bypass. */
  AllowAutoOnly: 'allow-auto-only',
} as const
