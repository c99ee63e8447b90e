import { native } from '../native'

/** Everything that this JavaScript environment has begun, and that ends with it. */
export const host = new native.RuntimeHost()
