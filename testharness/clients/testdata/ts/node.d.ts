// What the program uses of Node, which TypeScript does not know by itself.
declare const process: { env: Record<string, string | undefined>; stdin: unknown };
declare module 'node:readline/promises' {
  export function createInterface(options: { input: unknown }): AsyncIterable<string> & { close(): void };
}
