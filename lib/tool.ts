// Tools of the program that uses this package. Sessions of all agents take them, those of the Copilot client too.
export { defineTool } from './tool/definition'
export type * from './tool/definition'
export type * from './tool/result'
