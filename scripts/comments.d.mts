export function bareComments(source: string): number[]
export function bareCommentsBelow(folder: string): string[]
