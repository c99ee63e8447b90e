import { native } from '../native'

/** What this JavaScript environment has begun, and what ends with it. */
export const host = new native.RuntimeHost()
