import { describeAgent } from './real-agent'

describeAgent('pi')
