export declare const entries: { title: string; file: string; page: string }[]
export declare function apiPage(entry: { title: string; file: string }): string
