/// What makes a page hard to use without eyes, hands or good light, looked for by a script in the page.
enum PageCheck {
    /// Comes to a list of problems, a line each.
    static let script = #"""
        (() => {
          const problems = [];
          const all = [...document.querySelectorAll("*")];
          const describe = (element) => element.tagName.toLowerCase() + (element.id ? "#" + element.id : "")
            + (element.className ? "." + element.className : "");
          const isShown = (element) => element.checkVisibility({ visibilityProperty: true, opacityProperty: true });

          // MARK: The document
          if (document.documentElement.lang === "") problems.push("no language");
          if (document.title === "") problems.push("no title");
          if (!document.querySelector("meta[name=viewport]")) problems.push("no viewport");
          const ids = all.map((element) => element.id).filter((id) => id !== "");
          for (const id of new Set(ids)) if (ids.filter((other) => other === id).length > 1) problems.push("id twice: " + id);
          for (const element of all) {
            for (const name of ["aria-labelledby", "aria-describedby", "aria-controls", "for"]) {
              for (const id of (element.getAttribute(name) ?? "").split(" ").filter((id) => id !== "")) {
                if (!document.getElementById(id)) problems.push(describe(element) + " " + name + " leads to nothing: " + id);
              }
            }
            if (element.tabIndex > 0) problems.push(describe(element) + " breaks the order of Tab");
          }
          for (const landmark of ["main", "header", "nav", "footer", "[role=search]"]) {
            if (document.querySelectorAll(landmark).length !== 1) problems.push("not one " + landmark);
          }
          let level = 0;
          const headings = [...document.querySelectorAll("h1, h2, h3, h4, h5, h6")];
          for (const heading of headings) {
            const own = Number(heading.tagName[1]);
            if (own > level + 1) problems.push(describe(heading) + " skips a level");
            if (heading.textContent.trim() === "") problems.push(describe(heading) + " is empty");
            level = own;
          }
          if (headings.filter((heading) => heading.tagName === "H1").length !== 1) problems.push("not one h1");
          for (const image of document.images) if (!image.hasAttribute("alt")) problems.push(describe(image) + " has no alt");

          // MARK: Names and roles
          const roles = { listbox: ["option"], search: [], status: [], alert: [], option: [] };
          for (const element of document.querySelectorAll("[role]")) {
            const role = element.getAttribute("role");
            if (!(role in roles)) problems.push(describe(element) + " has the role " + role);
            if (role === "option" && !element.parentElement.matches("[role=listbox]")) problems.push("an option elsewhere");
            for (const wanted of role === "listbox" ? ["option"] : []) {
              if (![...element.children].every((child) => child.getAttribute("role") === wanted)) {
                problems.push(describe(element) + " holds something else than " + wanted);
              }
            }
          }
          const interactive = [...document.querySelectorAll("a[href], button, input, [role=option], [role=listbox]")];
          for (const element of interactive) {
            const labels = [...(element.labels ?? [])].map((label) => label.textContent);
            const named = (element.getAttribute("aria-labelledby") ?? "").split(" ").filter((id) => id !== "")
              .map((id) => document.getElementById(id)?.textContent ?? "");
            const name = [element.getAttribute("aria-label") ?? "", ...named, ...labels, element.matches("input") ? "" : element.textContent];
            if (name.join("").trim() === "") problems.push(describe(element) + " has no name");
            const box = element.getBoundingClientRect();
            if (isShown(element) && !element.matches("[role=listbox]") && (box.height < 24 || box.width < 24)) {
              problems.push(describe(element) + " is too small: " + box.width + "x" + box.height);
            }
          }

          // MARK: Contrast
          function channels(colour) {
            const numbers = colour.match(/[\d.]+/g).map(Number);
            return { rgb: numbers.slice(0, 3), alpha: numbers.length > 3 ? numbers[3] : 1 };
          }
          function ground(element) {
            const layers = [];
            for (let at = element; at; at = at.parentElement) {
              const colour = channels(getComputedStyle(at).backgroundColor);
              layers.push(colour);
              if (colour.alpha === 1) break;
            }
            let result = [255, 255, 255];
            for (const layer of layers.reverse()) {
              result = result.map((value, index) => value * (1 - layer.alpha) + layer.rgb[index] * layer.alpha);
            }
            return result;
          }
          function luminance(rgb) {
            const [red, green, blue] = rgb.map((value) => {
              const part = value / 255;
              return part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4;
            });
            return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
          }
          function contrast(one, other) {
            const [high, low] = [luminance(one), luminance(other)].sort((left, right) => right - left);
            return (high + 0.05) / (low + 0.05);
          }
          let looked = 0;
          for (const element of all) {
            const hasText = [...element.childNodes].some((node) => node.nodeType === Node.TEXT_NODE && node.data.trim() !== "");
            if (!hasText && !element.matches("input") || !isShown(element)) continue;
            const style = getComputedStyle(element);
            if (element.getBoundingClientRect().width <= 1) continue;
            looked += 1;
            const ratio = contrast(channels(style.color).rgb, ground(element));
            if (ratio < 4.5) problems.push(describe(element) + " has a contrast of " + ratio.toFixed(2) + ": " + element.textContent);
            if (element.matches("input")) {
              const edge = contrast(channels(style.borderTopColor).rgb, ground(element.parentElement));
              if (edge < 3) problems.push(describe(element) + " has an edge with a contrast of " + edge.toFixed(2));
            }
          }
          if (looked < 10) problems.push("only " + looked + " texts were found");

          // MARK: Room
          if (document.documentElement.scrollWidth > innerWidth) problems.push("it is wider than the window");
          const main = document.querySelector("main");
          if (main.scrollWidth > main.clientWidth) problems.push("the list is wider than its room");
          for (const element of document.querySelectorAll(".label, h1, button")) {
            if (isShown(element) && element.scrollWidth > element.clientWidth + 1) problems.push(describe(element) + " is cut");
          }
          return problems.join("\n");
        })()
        """#

    /// Comes to a problem of what has the focus, or to nothing: it must be seen where the focus is.
    static let focus = #"""
        (() => {
          const element = document.activeElement;
          if (element === document.body) return "nothing has the focus";
          const style = getComputedStyle(element);
          const box = element.getBoundingClientRect();
          if (style.outlineStyle === "none" || parseFloat(style.outlineWidth) < 2) return element.id + " has no outline";
          if (box.bottom <= 0 || box.top >= innerHeight) return element.id + " is out of sight";
          return "";
        })()
        """#
}
