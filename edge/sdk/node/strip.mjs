// Removes indentation and comment lines from the button, which pages load without a bundler.
import { readFileSync, writeFileSync } from 'node:fs';

const file = new URL('dist/button.js', import.meta.url);
const lines = readFileSync(file, 'utf8').split('\n').map((line) => line.trim());
writeFileSync(file, lines.filter((line) => line !== '' && !line.startsWith('//')).join('\n') + '\n');
