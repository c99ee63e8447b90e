export interface Span {
  text: string
  colour: string
  isBold: boolean
  isDim: boolean
}

export class Screen {
  constructor(columns: number)
  write(text: string): void
  rows(): Span[][]
}
