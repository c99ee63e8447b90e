export declare function sentencesOf(markdown: string): string[]
export declare function wordsOf(sentence: string): number
export declare function lengths(markdown: string): { sentences: number; mean: number; longShare: number }
export declare function pages(): string[]
