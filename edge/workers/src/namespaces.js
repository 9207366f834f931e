// The Durable Objects of a binding, in the jurisdiction and the region that the operator has chosen.

import { jurisdictions, locationHints } from "./routes.js";

// namespaceIn returns a namespace with the methods idFromName, get and getByName. bound is the namespace of the
// binding, and the last argument has the variables. A jurisdiction gives the objects other ids. A hint is
// considered only when an object is created.
export function namespaceIn(bound, binding, { JURISDICTION: jurisdiction = "", LOCATION_HINT: hint = "" }) {
  if (!bound) {
    const name = binding[0] + binding.slice(1).toLowerCase();
    throw new Error(`${binding} is missing; wrangler.jsonc binds it to the class ${name}`);
  }
  const check = (name, value, list) => {
    if (value !== "" && !list.includes(value)) throw new Error(`${name} is none of ${list.join(", ")}`);
  };
  check("JURISDICTION", jurisdiction, jurisdictions);
  check("LOCATION_HINT", hint, locationHints);
  const of = jurisdiction === "" ? bound : bound.jurisdiction(jurisdiction);
  const options = hint === "" ? undefined : { locationHint: hint };
  return {
    idFromName: (name) => of.idFromName(name),
    get: (id) => of.get(id, options),
    getByName: (name) => of.get(of.idFromName(name), options),
  };
}

