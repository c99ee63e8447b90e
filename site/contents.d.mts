export const docs: string
export function contents(markdown?: string): { text: string; items: { text: string; link: string }[] }[]
export function slug(title: string): string
