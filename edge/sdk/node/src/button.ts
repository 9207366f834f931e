// <verge-button> starts a verification with a public key and sends the browser to the hosted page. README.md
// lists its attributes. The file has no imports, so that a page can load it without a bundler.
const texts: Record<string, string[]> = {
  en: ['Please wait', 'The verification could not be started. Please try again.'],
  de: ['Bitte warten', 'Die Prüfung konnte nicht gestartet werden. Bitte erneut versuchen.'],
  es: ['Espere', 'No se pudo iniciar la verificación. Inténtelo de nuevo.'],
  fr: ['Veuillez patienter', 'La vérification n’a pas pu démarrer. Veuillez réessayer.'],
  pt: ['Aguarde', 'Não foi possível iniciar a verificação. Tente novamente.'],
  it: ['Attendere', 'Impossibile avviare la verifica. Riprovare.'],
};

// A sheet, since a Content-Security-Policy may forbid inline styles.
const sheet = new CSSStyleSheet();
sheet.replaceSync(`:host{display:inline-block;max-width:100%}
button{font:inherit;min-height:3rem;padding:.75em 1.5em;border:2px solid transparent;border-radius:.5em;
background:var(--verge-background,#0b57d0);color:var(--verge-color,#fff);overflow-wrap:anywhere}
:focus-visible{outline:3px solid var(--verge-background,#0b57d0);outline-offset:3px}
p{margin:.5em 0 0}p:empty{margin:0}
@media(max-width:30em){:host,button{width:100%}}`);

customElements.get('verge-button') || customElements.define('verge-button', class extends HTMLElement {
  connectedCallback() {
    if (this.shadowRoot) return;
    const root = this.attachShadow({ mode: 'open', delegatesFocus: true });
    root.adoptedStyleSheets = [sheet];
    const button = document.createElement('button');
    const status = document.createElement('p');
    button.part = 'button';
    button.append(document.createElement('slot'));
    status.setAttribute('role', 'status');
    root.append(button, status);
    let waits = false;
    const show = (busy: boolean, text: string) => {
      waits = busy;
      button.setAttribute('aria-disabled', String(busy));
      status.textContent = text;
    };
    // A browser that goes back may show the page as it was left.
    addEventListener('pageshow', () => show(false, ''));
    button.onclick = async () => {
      if (waits) return;
      const get = (name: string) => this.getAttribute(name) ?? undefined;
      const wanted = get('language') ?? this.closest<HTMLElement>('[lang]')?.lang ?? '';
      const language = wanted.slice(0, 2).toLowerCase();
      const [wait, failed] = (texts[language] ?? texts.en) as [string, string];
      show(true, wait);
      const detail = { state: get('state') ?? crypto.randomUUID(), session_id: '', code: '' };
      try {
        const response = await fetch(new URL('/api/v1/verify/start', get('base-url')), {
          method: 'POST',
          headers: { 'Content-Type': 'application/json' },
          signal: AbortSignal.timeout(15000),
          body: JSON.stringify({
            integration_id: get('integration-id'),
            public_key: get('public-key'),
            callback_url: get('callback-url') ?? location.origin + location.pathname,
            external_user_id: get('external-user-id'),
            state: detail.state,
            language: texts[language] && language,
          }),
        });
        const { redirect_url: to, ...rest } = await response.json();
        Object.assign(detail, rest);
        if (/^https?:/.test(to)) {
          this.dispatchEvent(new CustomEvent('verge-start', { bubbles: true, detail }));
          return location.assign(to);
        }
      } catch {} // The text below covers it.
      show(false, failed);
      this.dispatchEvent(new CustomEvent('verge-error', { bubbles: true, detail }));
    };
  }
});
export {};
