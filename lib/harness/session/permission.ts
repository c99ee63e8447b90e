/** Category of a tool, as the agent reports it. */
export type ToolKind =
  'read' | 'edit' | 'delete' | 'move' | 'search' | 'execute' | 'think' | 'fetch' | 'switch_mode' | 'other'

/** A tool call for which the agent asks permission. */
export interface PermissionRequest {
  /** Id of the question. */
  id: string
  /** The tool call. */
  tool: {
    /** Id of the tool call, as in the events `tool_start` and `tool_end`. */
    id: string
    /** Name of the tool: your own name of a tool of yours, else the agent's, where it reports one. */
    name?: string
    /** Category of the tool. */
    kind: ToolKind
    /** Description for people, for example the command. */
    title: string
    /** Arguments of the call, as the agent reports them. */
    input?: unknown
    /** Files that the call concerns. */
    locations?: {
      /** Path of the file. */
      path: string
      /** Line in the file. */
      line?: number
    }[]
  }
  /** Answers that the agent offers. */
  options: {
    /** Id of the answer, for `{ optionId }`. */
    id: string
    /** Effect of the answer. */
    kind: 'allow_once' | 'allow_always' | 'reject_once' | 'reject_always'
    /** Label of the answer, for people. */
    name: string
  }[]
}

/**
 * Answer to a permission request: `"allow"` once, `"allow-always"`, `"reject"`, or the id of one of the
 * offered options.
 */
export type Answer =
  | 'allow'
  | 'allow-always'
  | 'reject'
  | {
      /** Id of one of the options that the agent offers. */
      optionId: string
    }

/** A rule matches a tool call when all fields that it has match. */
export interface Rule {
  /** Category of the tool. */
  kind?: ToolKind
  /** Name of the tool, as a glob. */
  name?: string
  /**
   * Command, as a glob. A star never matches a separator, a redirection, a substitution, a variable before the
   * program, or an option by which git writes a file or runs a program. A rule in `deny` is compared with each
   * part of the command.
   */
  command?: string
  /** Path below the session's folder, as a glob: `*` matches within a folder, `**` across folders. */
  path?: string
}

/** Rules that decide on tool calls without asking. `deny` is checked first. */
export interface Policy {
  /**
   * Tool calls that are allowed.
   *
   * @default []
   */
  allow?: readonly Rule[]
  /**
   * Tool calls that are refused.
   *
   * @default []
   */
  deny?: readonly Rule[]
}
