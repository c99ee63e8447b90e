// A host that is terminated while its program runs. It tells the numbers of the program and of what that started.
import { PATIENT_PARENT } from './windows-cases.mjs'
import { spawn } from './tools.mjs'

for await (const { text } of spawn(process.execPath, ['-e', PATIENT_PARENT]).lines()) console.log(text)
