// The page for a person whose request the guest has not handled (contract 22). routes.js has its texts and its header,
// from the core.

import { errorHeader, errorPages, pendingPath, stylesheet } from "./routes.js";

const maxAccept = 1024;

// errorPage returns the header and the body of the page, or null if the client expects JSON.
export function errorPage(request, status) {
  const { pathname } = new URL(request.url), accepts = (name) => weighed(request.headers.get(name) ?? "");
  if (pathname.startsWith("/api/") || pathname.startsWith(pendingPath) || !asksForPage(accepts("Accept"))) return null;
  const kind = status >= 500 ? "unavailable" : status === 414 || status === 431 ? "tooLong" : "rejected";
  const lang = languageOf(accepts("Accept-Language"));
  const { title, text, again } = errorPages[kind][lang];
  const button = again && request.method === "GET" ? `<p><a class="button" href="">${again}</a></p>` : "";
  return {
    header: { ...errorHeader, "Content-Language": lang },
    body: `<!doctype html><html lang="${lang}"><head><meta charset="utf-8"><title>${title}</title>` +
      `<meta name="viewport" content="width=device-width, initial-scale=1">` +
      `<meta name="color-scheme" content="light dark"><link rel="stylesheet" href="${stylesheet}"></head>` +
      `<body><main><div class="card"><h1>${title}</h1><p class="lead">${text}</p>${button}</div></main></body></html>`,
  };
}

// asksForPage is web.AsksForPage of the core: text/html is preferred to JSON.
function asksForPage(accepted) {
  let page = 0, json = 0, jsonBy = 0;
  for (const [media, weight] of accepted) {
    if (media === "text/html") page = Math.max(page, weight);
    const by = ["*/*", "application/*", "application/json"].indexOf(media) + 1;
    if (by > jsonBy) [json, jsonBy] = [weight, by];
  }
  return page > json;
}

function languageOf(accepted) {
  let best = "en", most = 0;
  for (const [tag, weight] of accepted) {
    const lang = tag.split(/[-_]/)[0];
    if (Object.hasOwn(errorPages.rejected, lang) && weight > most) [best, most] = [lang, weight];
  }
  return best;
}

// weighed returns the valid elements of a list such as "text/html;q=0.8" with their weights. The last element
// of a list that is too long may be cut in two and is left out.
function weighed(list) {
  if (list.length > maxAccept) list = list.slice(0, Math.max(list.lastIndexOf(",", maxAccept - 1), 0));
  return list.split(",").flatMap((element) => {
    const [name, ...params] = element.split(";").map((part) => part.trim().toLowerCase());
    const weight = params.findLast((param) => param.startsWith("q="))?.slice(2) ?? "1";
    return name !== "" && /^(0(\.\d{0,3})?|1(\.0{0,3})?)$/.test(weight) ? [[name, Number(weight)]] : [];
  });
}
