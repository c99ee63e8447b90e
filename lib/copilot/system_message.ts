// The system message: added to, replaced, or changed section by section.

/** Section of the runtime's system message. */
export type SystemMessageSection =
  | 'preamble'
  | 'identity'
  | 'tone'
  | 'tool_efficiency'
  | 'environment_context'
  | 'code_change_rules'
  | 'guidelines'
  | 'safety'
  | 'tool_instructions'
  | 'custom_instructions'
  | 'runtime_instructions'
  | 'last_instructions'

/** The sections of the system message, each with a description. */
export const SYSTEM_MESSAGE_SECTIONS: Record<SystemMessageSection, { description: string }> = {
  preamble: { description: 'Who the agent is, and its mode' },
  identity: { description: 'The group of the preamble and the sections on tone and tools beside it' },
  tone: { description: 'Style, brevity and form of answers' },
  tool_efficiency: { description: 'How to use tools well: several at once, in batches' },
  environment_context: { description: 'Working directory, system, git root, files, tools at hand' },
  code_change_rules: { description: 'Rules for changing code: style, tests, linters' },
  guidelines: { description: 'Tips and rules of behaviour' },
  safety: { description: 'Limits of the environment, what is forbidden' },
  tool_instructions: { description: 'Instructions for each tool' },
  custom_instructions: { description: 'Instructions of the repository and the organization' },
  runtime_instructions: { description: 'What the runtime adds: notifications, memories, workspace, mode' },
  last_instructions: { description: 'The end of the prompt: parallel calls, persistence, completion' },
}

/** Changes the text of a section. When it throws, the section stays as it was. */
export type SectionTransformFn = (currentContent: string) => string | Promise<string>
/** Change to a section: one of the fixed actions, or a function. */
export type SectionOverrideAction =
  'replace' | 'remove' | 'append' | 'prepend' | 'preserve' | SectionTransformFn
/** Change to a section of the system message. */
export interface SectionOverride {
  /** The change. */
  action: SectionOverrideAction
  /** Text for the change. Ignored for `"remove"`. */
  content?: string
}
/** Keeps the runtime's system message and adds a text. */
export interface SystemMessageAppendConfig {
  /**
   * Mode of the system message.
   *
   * @default "append"
   */
  mode?: 'append'
  /** Text that is added at the end. */
  content?: string
}
/** Replaces the whole system message, including the runtime's safety rules. */
export interface SystemMessageReplaceConfig {
  /** Mode of the system message. */
  mode: 'replace'
  /** The system message. */
  content: string
}
/** Changes single sections of the system message. */
export interface SystemMessageCustomizeConfig {
  /** Mode of the system message. */
  mode: 'customize'
  /** Changes by section. Text for an unknown section is added at the end. */
  sections?: Partial<Record<SystemMessageSection, SectionOverride>>
  /** Text that is added at the end. */
  content?: string
}
/** How the system message is made. */
export type SystemMessageConfig =
  SystemMessageAppendConfig | SystemMessageReplaceConfig | SystemMessageCustomizeConfig

/** Functions that change sections, by section. */
export type SectionTransforms = Map<string, SectionTransformFn>

/** @internal The part of the message that goes over the wire, and the functions that stay here. */
export function splitSystemMessage(message: SystemMessageConfig | undefined): {
  wire: unknown
  transforms: SectionTransforms
} {
  const transforms: SectionTransforms = new Map()
  if (message?.mode !== 'customize' || !message.sections) return { wire: message, transforms }
  const sections: Record<string, unknown> = {}
  for (const [id, override] of Object.entries(message.sections)) {
    if (!override) continue
    if (typeof override.action === 'function') {
      transforms.set(id, override.action)
      sections[id] = { action: 'transform' }
    } else {
      sections[id] = { action: override.action, content: override.content }
    }
  }
  return { wire: transforms.size > 0 ? { ...message, sections } : message, transforms }
}

/** @internal An empty-mode session hears nothing of its surroundings unless its program says so. */
export function forEmptyMode(message: SystemMessageConfig | undefined): SystemMessageConfig {
  const removed = { environment_context: { action: 'remove' as const } }
  if (!message) return { mode: 'customize', sections: removed }
  if (message.mode === 'replace') return message
  if (message.mode === 'customize') {
    if (message.sections?.environment_context) return message
    return { ...message, sections: { ...message.sections, ...removed } }
  }
  return { mode: 'customize', content: message.content, sections: removed }
}

/** @internal */
export async function transformSections(
  transforms: SectionTransforms,
  sections: Record<string, { content: string }>,
): Promise<{ sections: Record<string, { content: string }> }> {
  const result: Record<string, { content: string }> = {}
  for (const [id, { content }] of Object.entries(sections)) {
    try {
      result[id] = { content: (await transforms.get(id)?.(content)) ?? content }
    } catch {
      result[id] = { content }
    }
  }
  return { sections: result }
}
