// Made by go generate of the core's tables of routes. Do not edit.

export const alivePath = "/healthz";
export const readyPath = "/readyz";
export const canaryPath = "/api/v1/openapi.yaml";
export const adminRoot = "/admin/";
export const selfPath = "/admin/v1/operators/self";
export const storePath = "/admin/v1/store";
export const pendingPath = "/verify/box/";

export const jurisdictions = ["eu","us","fedramp","fedramp-high"];
export const locationHints = ["wnam","enam","sam","weur","eeur","apac","apac-ne","apac-se","oc","afr","me"];

export const publicRoutes = [
  { methods: ["GET","HEAD"], pattern: "/console/assets/{}", label: "console", maxBody: 16384 },
  { methods: ["GET","HEAD"], pattern: "/console/logo/{}", label: "console", maxBody: 16384 },
  { methods: ["POST"], pattern: "/console/p/{}/brand", label: "console", maxBody: 81920 },
  { methods: ["GET","HEAD"], pattern: "/console/{...}", label: "console", maxBody: 16384 },
  { methods: ["POST"], pattern: "/console/{...}", label: "console", maxBody: 65536 },
  { methods: ["GET","HEAD"], pattern: "/oidc/.well-known/openid-configuration", label: "openid", maxBody: 16384 },
  { methods: ["GET","HEAD"], pattern: "/oidc/jwks", label: "openid", maxBody: 16384 },
  { methods: ["GET","POST"], pattern: "/oidc/authorize", label: "openid", maxBody: 16384 },
  { methods: ["POST"], pattern: "/oidc/token", label: "openid", maxBody: 16384 },
  { methods: ["GET","HEAD","POST"], pattern: "/oidc/userinfo", label: "openid", maxBody: 16384 },
  { methods: [], pattern: "/oidc/{endpoint...}", label: "openid", maxBody: 16384 },
  { methods: ["POST"], pattern: "/api/v1/verify/start", label: "start", maxBody: 16384 },
  { methods: ["OPTIONS"], pattern: "/api/v1/verify/start", label: "start", maxBody: 16384 },
  { methods: ["POST"], pattern: "/api/v1/verify/validate", label: "validate", maxBody: 16384 },
  { methods: ["GET","HEAD"], pattern: "/api/v1/verify/sessions/{session}", label: "sessions", maxBody: 16384 },
  { methods: ["GET","HEAD"], pattern: "/api/v1/verify/test-events", label: "testevents", maxBody: 16384, waits: true },
  { methods: ["GET","HEAD"], pattern: "/verify", label: "verify", maxBody: 16384 },
  { methods: ["POST"], pattern: "/verify", label: "verify", maxBody: 16384 },
  { methods: ["POST"], pattern: "/verify/file", label: "file", maxBody: 1064960 },
  { methods: ["POST"], pattern: "/verify/wallet", label: "wallet", maxBody: 81920 },
  { methods: ["GET","HEAD"], pattern: "/verify/passkeys", label: "verify", maxBody: 16384 },
  { methods: ["POST"], pattern: "/verify/passkeys", label: "verify", maxBody: 16384 },
  { methods: ["GET"], pattern: "/verify/return/{method}", label: "return", maxBody: 16384, maxURL: 26624 },
  { methods: ["GET","HEAD"], pattern: "/verify/phone/{}", label: "phone", maxBody: 16384 },
  { methods: ["POST"], pattern: "/verify/box/{}", label: "box", maxBody: 65536 },
  { methods: ["GET","HEAD"], pattern: "/verify/box/{}", label: "box", maxBody: 16384 },
  { methods: ["GET","HEAD"], pattern: "/verify/logo/{}", label: "verify", maxBody: 16384 },
  { methods: ["GET","HEAD"], pattern: "/verify/assets/{}", label: "verify", maxBody: 16384 },
  { methods: ["GET","HEAD"], pattern: "/favicon.ico", label: "other", maxBody: 16384 },
  { methods: ["GET","HEAD"], pattern: "/", label: "other", maxBody: 16384 },
  { methods: ["GET","HEAD"], pattern: "/.well-known/security.txt", label: "other", maxBody: 16384 },
  { methods: ["GET","HEAD"], pattern: "/api/v1/openapi.yaml", label: "other", maxBody: 16384 },
  { methods: ["GET","HEAD"], pattern: "/docs", label: "docs", maxBody: 16384 },
  { methods: ["GET","HEAD"], pattern: "/docs/docs.css", label: "docs", maxBody: 16384 },
  { methods: ["GET","HEAD"], pattern: "/docs/docs.js", label: "docs", maxBody: 16384 },
  { methods: ["GET","HEAD"], pattern: "/docs/events.json", label: "docs", maxBody: 16384 },
  { methods: [], pattern: "/api/v1/verify/sessions/{session...}", label: "sessions", maxBody: 16384 },
  { methods: [], pattern: "/verify/{...}", label: "verify", maxBody: 16384 },
  { methods: [], pattern: "/docs/{...}", label: "docs", maxBody: 16384 },
  { methods: [], pattern: "{...}", label: "other", maxBody: 16384 },
];

export const adminRoutes = [
  { methods: ["GET","HEAD"], pattern: "/console/assets/{}", label: "console", maxBody: 16384 },
  { methods: ["GET","HEAD"], pattern: "/console/logo/{}", label: "console", maxBody: 16384 },
  { methods: ["POST"], pattern: "/console/p/{}/brand", label: "console", maxBody: 81920 },
  { methods: ["GET","HEAD"], pattern: "/console/{...}", label: "console", maxBody: 16384 },
  { methods: ["POST"], pattern: "/console/{...}", label: "console", maxBody: 65536 },
  { methods: ["GET","HEAD"], pattern: "/", label: "admin", maxBody: 16384 },
  { methods: ["GET","HEAD"], pattern: "/admin/v1/openapi.yaml", label: "admin", maxBody: 16384 },
  { methods: ["GET","HEAD"], pattern: "/admin/v1/publishers", label: "admin", maxBody: 16384 },
  { methods: ["POST"], pattern: "/admin/v1/publishers", label: "admin", maxBody: 103768 },
  { methods: ["GET","HEAD"], pattern: "/admin/v1/publishers/{id}", label: "admin", maxBody: 16384 },
  { methods: ["PATCH"], pattern: "/admin/v1/publishers/{id}", label: "admin", maxBody: 103768 },
  { methods: ["POST"], pattern: "/admin/v1/publishers/{id}/archive", label: "admin", maxBody: 16384 },
  { methods: ["GET","HEAD"], pattern: "/admin/v1/publishers/{id}/overview", label: "admin", maxBody: 16384 },
  { methods: ["GET","HEAD"], pattern: "/admin/v1/integrations", label: "admin", maxBody: 16384 },
  { methods: ["POST"], pattern: "/admin/v1/integrations", label: "admin", maxBody: 16384 },
  { methods: ["GET","HEAD"], pattern: "/admin/v1/integrations/{id}", label: "admin", maxBody: 16384 },
  { methods: ["PATCH"], pattern: "/admin/v1/integrations/{id}", label: "admin", maxBody: 16384 },
  { methods: ["POST"], pattern: "/admin/v1/integrations/{id}/archive", label: "admin", maxBody: 16384 },
  { methods: ["POST"], pattern: "/admin/v1/integrations/{id}/stage", label: "admin", maxBody: 16384 },
  { methods: ["POST"], pattern: "/admin/v1/integrations/{id}/drop", label: "admin", maxBody: 16384 },
  { methods: ["POST"], pattern: "/admin/v1/integrations/{id}/rotate", label: "admin", maxBody: 16384 },
  { methods: ["POST"], pattern: "/admin/v1/integrations/{id}/test", label: "admin", maxBody: 16384 },
  { methods: ["POST"], pattern: "/admin/v1/integrations/{id}/test-event", label: "admin", maxBody: 16384 },
  { methods: ["POST"], pattern: "/admin/v1/integrations/{id}/test-session", label: "admin", maxBody: 16384 },
  { methods: ["GET","HEAD"], pattern: "/admin/v1/keys", label: "admin", maxBody: 16384 },
  { methods: ["POST"], pattern: "/admin/v1/keys", label: "admin", maxBody: 16384 },
  { methods: ["POST"], pattern: "/admin/v1/keys/{id}/revoke", label: "admin", maxBody: 16384 },
  { methods: ["GET","HEAD"], pattern: "/admin/v1/deliveries", label: "admin", maxBody: 16384 },
  { methods: ["GET","HEAD"], pattern: "/admin/v1/deliveries/{id}", label: "admin", maxBody: 16384 },
  { methods: ["POST"], pattern: "/admin/v1/deliveries/{id}/resend", label: "admin", maxBody: 16384 },
  { methods: ["GET","HEAD"], pattern: "/admin/v1/undelivered", label: "admin", maxBody: 16384 },
  { methods: ["GET","HEAD"], pattern: "/admin/v1/sessions", label: "admin", maxBody: 16384 },
  { methods: ["GET","HEAD"], pattern: "/admin/v1/sessions/{session}", label: "admin", maxBody: 16384 },
  { methods: ["GET","HEAD"], pattern: "/admin/v1/usage", label: "admin", maxBody: 16384 },
  { methods: ["GET","HEAD"], pattern: "/admin/v1/report", label: "admin", maxBody: 16384 },
  { methods: ["GET","HEAD"], pattern: "/admin/v1/passkeys", label: "admin", maxBody: 16384 },
  { methods: ["POST"], pattern: "/admin/v1/passkeys/end", label: "admin", maxBody: 16384 },
  { methods: ["GET","HEAD"], pattern: "/admin/v1/members", label: "admin", maxBody: 16384 },
  { methods: ["POST"], pattern: "/admin/v1/members/{id}/role", label: "admin", maxBody: 16384 },
  { methods: ["POST"], pattern: "/admin/v1/members/{id}/sign-out", label: "admin", maxBody: 16384 },
  { methods: ["POST"], pattern: "/admin/v1/members/{id}/remove", label: "admin", maxBody: 16384 },
  { methods: ["GET","HEAD"], pattern: "/admin/v1/invitations", label: "admin", maxBody: 16384 },
  { methods: ["POST"], pattern: "/admin/v1/invitations", label: "admin", maxBody: 16384 },
  { methods: ["POST"], pattern: "/admin/v1/invitations/{id}/withdraw", label: "admin", maxBody: 16384 },
  { methods: ["POST"], pattern: "/admin/v1/links", label: "admin", maxBody: 16384 },
  { methods: ["GET","HEAD"], pattern: "/admin/v1/operators", label: "admin", maxBody: 16384 },
  { methods: ["POST"], pattern: "/admin/v1/operators", label: "admin", maxBody: 16384 },
  { methods: ["GET","HEAD"], pattern: "/admin/v1/operators/self", label: "admin", maxBody: 16384 },
  { methods: ["POST"], pattern: "/admin/v1/operators/{id}/revoke", label: "admin", maxBody: 16384 },
  { methods: ["GET","HEAD"], pattern: "/admin/v1/audit", label: "admin", maxBody: 16384 },
  { methods: ["GET","HEAD"], pattern: "/admin/v1/methods", label: "admin", maxBody: 16384 },
  { methods: ["GET","HEAD"], pattern: "/admin/v1/trust-lists", label: "admin", maxBody: 16384 },
  { methods: ["POST"], pattern: "/admin/v1/trust-lists", label: "admin", maxBody: 1048576 },
  { methods: ["POST"], pattern: "/admin/v1/site", label: "admin", maxBody: 1048576 },
  { methods: [], pattern: "{...}", label: "admin", maxBody: 16384 },
];

export const stylesheet = "/verify/assets/verge.0bb5b38ef9ba4c3c.css";

export const errorHeader = {
  "Cache-Control": "no-store",
  "Content-Security-Policy": "default-src 'none'; style-src 'self'; img-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'",
  "Content-Type": "text/html; charset=utf-8",
  "Cross-Origin-Opener-Policy": "same-origin",
  "Cross-Origin-Resource-Policy": "same-origin",
  "Permissions-Policy": "camera=(), microphone=(), geolocation=(), payment=()",
  "Referrer-Policy": "same-origin",
  "Strict-Transport-Security": "max-age=31536000",
  "X-Content-Type-Options": "nosniff",
  "X-Frame-Options": "DENY",
  "X-Robots-Tag": "noindex, nofollow"
};

export const errorPages = {
  "rejected": {
    "de": {
      "title": "Diese Anfrage ist ungültig",
      "text": "Sie enthält einen Fehler. Kehren Sie bitte zur Website zurück und beginnen Sie dort von vorn."
    },
    "en": {
      "title": "This request is not valid",
      "text": "It contains an error. Please go back to the site and start from there."
    },
    "es": {
      "title": "Esta solicitud no es válida",
      "text": "Contiene un error. Vuelva al sitio web y empiece desde allí."
    },
    "fr": {
      "title": "Cette demande n’est pas valide",
      "text": "Elle contient une erreur. Revenez sur le site et recommencez à partir de là."
    },
    "it": {
      "title": "Questa richiesta non è valida",
      "text": "Contiene un errore. Torni al sito e ricominci da lì."
    },
    "pt": {
      "title": "Este pedido não é válido",
      "text": "Contém um erro. Volte ao site e comece lá outra vez."
    }
  },
  "tooLong": {
    "de": {
      "title": "Dieser Link ist zu lang",
      "text": "Vielleicht wurde der Adresse etwas hinzugefügt. Bitte verwenden Sie den Link genau so, wie Sie ihn von der Website erhalten haben."
    },
    "en": {
      "title": "This link is too long",
      "text": "Something may have been added to the address. Please use the link exactly as the site gave it to you."
    },
    "es": {
      "title": "Este enlace es demasiado largo",
      "text": "Puede que se haya añadido algo a la dirección. Utilice el enlace tal como se lo dio el sitio web."
    },
    "fr": {
      "title": "Ce lien est trop long",
      "text": "Quelque chose a peut-être été ajouté à l’adresse. Veuillez utiliser le lien tel que le site vous l’a donné."
    },
    "it": {
      "title": "Questo link è troppo lungo",
      "text": "Forse all’indirizzo è stato aggiunto qualcosa. Usi il link esattamente come lo ha ricevuto dal sito."
    },
    "pt": {
      "title": "Esta ligação é demasiado longa",
      "text": "Pode ter sido acrescentado algo ao endereço. Use a ligação tal como o site lha deu."
    }
  },
  "unavailable": {
    "de": {
      "title": "Zurzeit nicht verfügbar",
      "text": "Bei uns ist gerade sehr viel los, oder es liegt eine Störung vor. Bitte versuchen Sie es gleich noch einmal.",
      "again": "Noch einmal versuchen"
    },
    "en": {
      "title": "Not available right now",
      "text": "We are very busy or have a problem on our side. Please try again in a moment.",
      "again": "Try again"
    },
    "es": {
      "title": "No disponible en este momento",
      "text": "Tenemos mucha actividad o hay un fallo por nuestra parte. Inténtelo de nuevo dentro de un momento.",
      "again": "Intentarlo de nuevo"
    },
    "fr": {
      "title": "Indisponible pour le moment",
      "text": "Le service est très sollicité, ou un problème est survenu de notre côté. Veuillez réessayer dans un instant.",
      "again": "Réessayer"
    },
    "it": {
      "title": "Al momento non disponibile",
      "text": "Ci sono moltissime richieste o c’è un problema da parte nostra. Riprovi tra qualche istante.",
      "again": "Riprova"
    },
    "pt": {
      "title": "Indisponível de momento",
      "text": "Há muita procura neste momento ou uma falha do nosso lado. Tente de novo dentro de momentos.",
      "again": "Tentar de novo"
    }
  }
};
