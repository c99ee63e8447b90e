// The child process of a round: runs one contender of one scenario and prints what it measured.
const { scenario, ...parameters } = JSON.parse(process.argv[2])
const { contenders } = await import(`./scenarios/${scenario}.mjs`)
const measured = await contenders[parameters.name.split(' @')[0]](parameters)
process.stdout.write(JSON.stringify(measured), () => process.exit(0))
