// Permissions: what the agent asks, and what may be answered.
import type {
  PermissionDecisionContext,
  PermissionDecisionRequest,
  PermissionRequest as GeneratedRequest,
} from './generated'

export type PermissionRequest = GeneratedRequest & { readonly managedApprovalRequired?: boolean }

/** "no-result": the question stays open, for another client to answer. */
export type PermissionRequestResult = PermissionDecisionRequest['result'] | { kind: 'no-result' }

/** A decision with the word on who made it. */
export interface AttributedPermissionResult {
  kind: 'attributed'
  result: PermissionRequestResult
  decisionContext: PermissionDecisionContext
}

/** A handler that throws counts as a user who is not there. */
export type PermissionHandler = (
  request: PermissionRequest,
  invocation: { sessionId: string; managedSettingsEnabled?: boolean },
) =>
  | Promise<PermissionRequestResult | AttributedPermissionResult>
  | PermissionRequestResult
  | AttributedPermissionResult

export function createAttributedPermissionResult(
  result: PermissionRequestResult | AttributedPermissionResult,
  decisionContext: PermissionDecisionContext,
): AttributedPermissionResult {
  return {
    kind: 'attributed',
    result: result.kind === 'attributed' ? result.result : result,
    decisionContext,
  }
}

/** Allows everything, once each; what managed settings reserve for people stays open. */
export const approveAll: PermissionHandler = (request, invocation) => {
  if (invocation.managedSettingsEnabled)
    throw new Error('approveAll cannot be used when managed settings are enabled')
  return request.managedApprovalRequired ? { kind: 'no-result' } : { kind: 'approve-once' }
}

/** Values of `ManagedSettingsPermissions.disableBypassPermissionsMode`. */
export const DisableBypassPermissionsModes = {
  /** No bypass at all. */
  Disable: 'disable',
  /** The automatic bypass alone. */
  AllowAutoOnly: 'allow-auto-only',
} as const
