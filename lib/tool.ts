// Tools of the program that uses this package. Sessions of all agents take them, those of the Copilot client too.
export {
  defineTool,
  type FoundTool,
  type Tool,
  type ToolHandler,
  type ToolInvocation,
  type ZodSchema,
} from './tool/definition'
export type {
  ToolBinaryResult,
  ToolResult,
  ToolResultObject,
  ToolResultType,
  ToolTelemetry,
} from './tool/result'
