// The parts of Node that the program uses, because TypeScript does not declare them.
declare const process: { env: Record<string, string | undefined>; stdin: unknown };
declare module 'node:readline/promises' {
  export function createInterface(options: { input: unknown }): AsyncIterable<string> & { close(): void };
}
