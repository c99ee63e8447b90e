/** What a tool does, as the agent classifies it. */
export type ToolKind =
  'read' | 'edit' | 'delete' | 'move' | 'search' | 'execute' | 'think' | 'fetch' | 'switch_mode' | 'other'

/** What the agent wants to do. */
export interface PermissionRequest {
  id: string
  tool: {
    id: string
    name?: string
    kind: ToolKind
    title: string
    input?: unknown
    locations?: { path: string; line?: number }[]
  }
  options: {
    id: string
    kind: 'allow_once' | 'allow_always' | 'reject_once' | 'reject_always'
    name: string
  }[]
}

/** What is answered; an option's id where the agent offers more than these. */
export type Answer = 'allow' | 'allow-always' | 'reject' | { optionId: string }

/** What is meant by a rule: all that it names has to hold. */
export interface Rule {
  kind?: ToolKind
  /** Of the tool; a glob. */
  name?: string
  /**
   * A glob. A star never takes a separator, a redirection, a substitution, a variable before the program, or an option by which git
   * writes a file or runs a program. A denied command is looked for in every part.
   */
  command?: string
  /** A glob below the session's folder: `*` stays in a folder, `**` does not. */
  path?: string
}

/** What is decided without asking: deny first. */
export interface Policy {
  allow?: Rule[]
  deny?: Rule[]
}
