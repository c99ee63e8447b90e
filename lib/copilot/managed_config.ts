// Settings that an organization or an experiment gives to a session.

/** Permission policy of an organization. A malformed rule is refused by the runtime. */
export interface ManagedSettingsPermissions {
  /** Limits the mode that bypasses permission requests; see `DisableBypassPermissionsModes`. */
  disableBypassPermissionsMode?: string
  /** Operations that are always denied, for example `"Shell(git push *)"`. */
  deny?: string[]
  /** Operations that always need a confirmation. */
  ask?: string[]
  /** Operations that need no confirmation. */
  allow?: string[]
}
/** Settings of an organization. */
export interface ManagedSettings {
  /** Permission policy. */
  permissions?: ManagedSettingsPermissions
}
/** Value of an experiment's parameter. */
export type ExpFlagValue = string | number | boolean | null
/** Parameters of an experiment. */
export interface ExpConfigEntry {
  /** Id of the entry. */
  Id: string
  /** Values by name. */
  Parameters: Record<string, ExpFlagValue>
}
/** Experiments that a session takes part in, in the format of the Copilot CLI. */
export interface CopilotExpAssignmentResponse {
  /** Names of enabled features. */
  Features: string[]
  /** Experiments by name. */
  Flights: Record<string, string>
  /** Parameters of the experiments. */
  Configs: ExpConfigEntry[]
  /** Groups of parameters, passed on unchanged. */
  ParameterGroups?: unknown
  /** Version of the assignment. */
  FlightingVersion?: number
  /** Id of the assignment. */
  ImpressionId?: string
  /** Text that is sent to the Copilot API and with telemetry. */
  AssignmentContext: string
}
