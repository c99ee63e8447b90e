// Where the types of the Copilot SDK and ours differ, and why. A path that no row explains fails the test; so does a row that
// explains nothing any more.

export interface Difference {
  paths: RegExp
  why: string
}

const twoRuntimes: Difference = {
  paths:
    /\[(workflow|factory)[\]._]|"(workflow|factory)\.|indexed_search|model_deselected|permission_recovery|extension_context|PermissionRequested(Event|Data)$|PermissionRequest(Factory|Workflow)/,
  why: 'one of the two versions knows these events, kinds and fields, the types here know those of both',
}
const shared: Difference[] = [
  twoRuntimes,
  {
    paths:
      /^(typeof define(Factory|Workflow)|(Factory|Workflow)Handle\b|Session(Factory|Workflow)Api\.run$|CopilotSession\.(factory|workflow)\.run$)/,
    why: "a handle is branded with a symbol of its maker's",
  },
  { paths: /^CopilotSession\.on$/, why: 'overloads; one more takes types of events that no version knows' },
  { paths: /^CopilotWebSocket(Handler|Forwarder)$/, why: 'members by symbols of its own' },
  {
    paths: /copilotUser\.(assigned_date|organization_list|is_mcp_enabled|quota_snapshots|enterprise_list)$/,
    why: 'the schema\'s "or nothing" and "or any other field": an object in the SDK\'s types, left out here',
  },
  {
    paths: /^ElicitationCompletedContent = undefined$/,
    why: 'the SDK puts "or nothing" into the value of a map',
  },
  {
    paths: /updateSubagentSettings\(params\)\.subagents = undefined$/,
    why: 'the schema requires it, null included',
  },
]

/** By package. */
export const differences: Record<string, Difference[]> = {
  '@github/copilot-sdk': [
    ...shared,
    {
      paths: /changeboarding_shortcut|auto_tier_recommendation|mcp\.planInstall|catalog\.search/,
      why: 'words that runtimes since 1.0.89 have more',
    },
  ],
  'copilot-sdk-preview': [
    ...shared,
    { paths: /^ResponseSchema\./, why: "more is taken: a schema need not be zod's" },
    { paths: /commands\.enqueue\(\)$/, why: "an older runtime's answer says less" },
    { paths: /compatibilityTags$/, why: 'a list that must not be empty, by the schema' },
  ],
}
