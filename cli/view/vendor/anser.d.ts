// Types of the copy of `anser` that scripts/setup.mjs puts beside the compiled files: the package installs nothing else.
import Anser from 'anser'
export = Anser
