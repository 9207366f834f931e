// Passkeys require this script. It also adds a copy button for secrets, opens a sign-in link automatically in
// dev, and updates live pages.
"use strict";

const decode = (text) => Uint8Array.from(atob(text.replace(/-/g, "+").replace(/_/g, "/")), (c) => c.charCodeAt(0));
const encode = (bytes) => btoa(String.fromCharCode(...new Uint8Array(bytes)))
	.replace(/\+/g, "-").replace(/\//g, "_").replace(/=+$/, "");

// The options are JSON, in which bytes are base64url.
function readOptions(text) {
	const options = JSON.parse(text);
	options.challenge = decode(options.challenge);
	if (options.user) options.user.id = decode(options.user.id);
	for (const list of [options.excludeCredentials, options.allowCredentials]) {
		for (const credential of list ?? []) credential.id = decode(credential.id);
	}
	return options;
}

function writeCredential(credential) {
	const response = {};
	for (const name of ["clientDataJSON", "attestationObject", "authenticatorData", "signature", "userHandle"]) {
		if (credential.response[name]) response[name] = encode(credential.response[name]);
	}
	if (credential.response.getTransports) response.transports = credential.response.getTransports();
	return JSON.stringify({ id: credential.id, rawId: encode(credential.rawId), type: credential.type, response,
		clientExtensionResults: credential.getClientExtensionResults() });
}

const problems = {
	NotAllowedError: "No passkey was used. You can try again.",
	InvalidStateError: "This device has a passkey for you already. Sign in with it.",
	SecurityError: "The address of this page does not match the service's base URL, so passkeys do not work here.",
};

for (const form of document.querySelectorAll("form[data-passkey]")) {
	const problem = form.querySelector("[data-passkey-problem]");
	const show = (text) => { problem.textContent = text; problem.hidden = false; };
	form.querySelector("[data-passkey-off]").hidden = true;
	if (!window.PublicKeyCredential) {
		show("This browser does not support passkeys. Open this page in another browser.");
		continue;
	}
	form.querySelector("button").hidden = false;
	form.addEventListener("submit", async (event) => {
		event.preventDefault();
		problem.hidden = true;
		try {
			const publicKey = readOptions(form.dataset.options);
			const credential = form.dataset.passkey === "create"
				? await navigator.credentials.create({ publicKey })
				: await navigator.credentials.get({ publicKey });
			form.elements.credential.value = writeCredential(credential);
			form.submit();
		} catch (error) {
			show(problems[error.name] ?? "The passkey did not work: " + error.message);
		}
	});
}

document.querySelector("form[data-at-once]")?.submit();

// The preview of a brand follows the form. The service computes the colours: each accent has a stylesheet. The logo is
// drawn, because the page may load pictures only from its own host.
const brand = document.querySelector('form[data-action="save-brand"]');
if (brand) {
	const accent = brand.elements.accent;
	let sheet = document.querySelector("[data-preview-colours]");
	const picker = document.createElement("input");
	picker.type = "color";
	picker.className = "picker";
	picker.setAttribute("aria-label", "Choose the accent colour");
	let waits;
	const show = () => {
		const colour = (accent.value.trim() || accent.placeholder).toLowerCase();
		if (!/^#[0-9a-f]{6}$/.test(colour)) return;
		picker.value = colour;
		const next = sheet.cloneNode();
		next.href = sheet.dataset.previewColours + colour.slice(1) + ".css";
		if (next.href === sheet.href) return;
		const old = sheet;
		sheet = next;
		next.addEventListener("load", () => old.remove());
		old.after(next);
	};
	const soon = () => {
		clearTimeout(waits);
		waits = setTimeout(show, 150);
	};
	accent.addEventListener("input", soon);
	picker.addEventListener("input", () => {
		accent.value = picker.value;
		soon();
	});
	const row = document.createElement("div");
	row.className = "with-picker";
	accent.replaceWith(row);
	row.append(accent, picker);
	show();
	picker.value = (accent.value || accent.placeholder).toLowerCase();
	brand.elements.preview.hidden = true;
	brand.elements.logo_base64.addEventListener("change", async (event) => {
		const file = event.target.files[0];
		if (!file) return;
		const picture = await createImageBitmap(file).catch(() => null);
		if (!picture) return; // the response to the form contains the error
		for (const logo of document.querySelectorAll(".preview-logo")) {
			const canvas = document.createElement("canvas");
			canvas.width = picture.width;
			canvas.height = picture.height;
			canvas.getContext("2d").drawImage(picture, 0, 0);
			logo.replaceChildren(canvas);
			logo.hidden = false;
		}
	});
}

for (const code of document.querySelectorAll("[data-secret]")) {
	if (!navigator.clipboard) break;
	const button = document.createElement("button");
	button.type = "button";
	button.className = "quiet-button";
	button.textContent = "Copy";
	button.addEventListener("click", async () => {
		try {
			await navigator.clipboard.writeText(code.textContent);
			button.textContent = "Copied";
		} catch {
			getSelection().selectAllChildren(code); // the browser allows no copy by a script
			button.textContent = "Selected: press Ctrl+C or ⌘C";
		}
	});
	code.after(button);
}

// Methods are moved within the page. Without this script, the button sends the form, which is returned in the
// new order.
for (const list of document.querySelectorAll("[data-methods]")) {
	const form = list.closest("form");
	list.addEventListener("click", (event) => {
		const button = event.target.closest("button[name=move]");
		if (!button) return;
		event.preventDefault();
		const item = button.closest("li"), name = item.dataset.method, up = button.value.endsWith(" up");
		if (up) item.previousElementSibling?.before(item);
		else item.nextElementSibling?.after(item);
		const items = [...item.parentElement.children];
		form.elements.methods_order.value = items.map((one) => one.dataset.method).join(" ");
		for (const [n, one] of items.entries()) {
			const [first, last] = one.querySelectorAll("button[name=move]");
			first.disabled = n === 0;
			last.disabled = n === items.length - 1;
		}
		(button.disabled ? item.querySelector("button[name=move]:not(:disabled)") : button)?.focus();
		list.querySelector("[data-moved]").textContent =
			`${name} is number ${items.indexOf(item) + 1} of ${items.length}`;
	});
}

// edited reports whether a field has another value than the page that contained it.
function edited(field) {
	if (!(field instanceof HTMLSelectElement)) {
		return field.value !== field.defaultValue || field.checked !== field.defaultChecked;
	}
	const first = [...field.options].findIndex((option) => option.defaultSelected);
	return field.selectedIndex !== Math.max(first, 0);
}

// inUse reports whether the user has the focus, a selection or input in the live part. A new one would take it away.
const inUse = (live) => live.contains(document.activeElement) ||
	!getSelection().isCollapsed && getSelection().containsNode(live, true) ||
	[...live.querySelectorAll("input:not([type=hidden]), select, textarea")].some(edited);

// Only the live part is replaced, and only while it is not in use.
async function refresh() {
	const live = document.querySelector("[data-live]");
	if (!document.hidden && !inUse(live)) {
		try {
			const response = await fetch(location.href, { headers: { Accept: "text/html" } });
			const text = await response.text();
			const later = response.status === 408 || response.status === 429 || response.status >= 500;
			if (!later && !inUse(live)) {
				const page = new DOMParser().parseFromString(text, "text/html");
				const fresh = response.redirected ? null : page.querySelector("[data-live]");
				if (!fresh) {
					location.reload(); // it has ended, or the user is signed out: the whole page shows it
					return;
				}
				live.replaceWith(fresh);
			}
		} catch {
			// The network is temporarily unavailable.
		}
	}
	setTimeout(refresh, 5000);
}
if (document.querySelector("[data-live]")) setTimeout(refresh, 5000);
