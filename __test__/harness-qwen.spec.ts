import { describeAgent } from './real-agent'

describeAgent('qwen')
