/** A value that JSON can express. */
export type JsonValue = null | boolean | number | string | JsonValue[] | { [key: string]: JsonValue }
