import CoveCore
import CoveTestSupport
import Testing

/// What tells whose a program is: names of systemd's units, what Flatpak says, and what a manifest does.
@Suite struct AppProgramTests {
    private func application(_ unit: String) -> String? {
        SystemdUnit(unit)?.application.map { "\($0.launcher ?? "-") \($0.identifier)" }
    }

    @Test func `an app's unit is named after it, as desktops do`() {
        for (unit, wanted) in [
            ("app-com.acme.notes-7.scope", "- com.acme.notes"),
            ("app-gnome-com.acme.notes-7.scope", "gnome com.acme.notes"),
            ("app-flatpak-com.acme.notes-7.scope", "flatpak com.acme.notes"),
            ("app-com.acme.notes.service", "- com.acme.notes"),
            ("app-com.acme.notes@x.y.service", "- com.acme.notes"),
            ("app-gnome-com.acme.notes@1.service", "gnome com.acme.notes"),
            ("app-org.launcher.x-com.acme.notes-7.scope", "org.launcher.x com.acme.notes"),
            ("app-com.acme.my\\x2dnotes-7.scope", "- com.acme.my-notes"),
            ("app-com.acme.notes.scope", "- com.acme.notes"), ("app-notes-7.scope", nil), ("app.scope", nil),
            ("com.acme.notes.service", nil), ("xapp-com.acme.notes.service", nil), ("app-\\x2-7.scope", nil),
            ("app-gnome-x-com.acme.notes.scope", nil), ("app--7.scope", nil), ("app-@.service", nil),
        ] as [(String, String?)] { #expect(application(unit) == wanted, "\(unit)") }
    }

    @Test func `the first name below the slices is the unit, in the hierarchy that systemd keeps`() {
        let group = "/user.slice/user-7.slice/user@7.service"
        for (text, wanted) in [
            ("0::\(group)/app.slice/a.scope", "a.scope"), ("0::\(group)/a.service/b.slice/c.scope", "a.service"),
            ("0::/own.slice/own-part.slice/a.service", "a.service"), ("0::/own.slice/a/b.service", nil),
            ("0::/user.slice/a.service", nil), ("0::/system.slice/a.service", "a.service"),
            ("0::/system.slice/system-x.slice/a@1.service", "a@1.service"),
            ("3:cpu:/system.slice/x.service\n1:name=systemd:\(group)/a.scope\n0::/system.slice/y.service\n", "a.scope"),
            ("1:name=systemd:/\n0::\(group)/a.scope", nil), ("0::\(group)", nil), ("0::\(group)/app.slice", nil),
            ("0::/user.slice/user-8.slice/user@8.service/a.scope", nil), ("0::/a.scope", nil),
            ("0::/../../system.slice/a.service", nil), ("0::/user.slice/user-7.slice/session-1.scope", nil),
            ("0::/system.slice/sub", nil), ("0:cpu:\(group)/a.scope", nil), ("", nil), (":::", nil), ("0::", nil),
        ] as [(String, String?)] { #expect(SystemdUnit(controlGroups: text, user: 7)?.name == wanted, "\(text)") }
    }

    @Test func `a template's name is that of its instances`() throws {
        let unit = try #require(SystemdUnit("part@one.service"))
        #expect(unit.isCalled("part@one.service") && unit.isCalled("part@.service"))
        for other in ["part.service", "part@.scope", "part@two.service", "par@.service", "@.service", "part@"] {
            #expect(!unit.isCalled(other), "\(other)")
        }
        #expect(SystemdUnit("part.service")?.isCalled("part@.service") == false)
    }

    @Test func `of what Flatpak says two lines count, each in its group`() {
        func read(_ text: String) -> String {
            let info = FlatpakInfo(Array(text.utf8))
            return "\(info.app?.text ?? "-") \(info.instance ?? "-")"
        }
        #expect(read("[Application]\nname=com.a.app\nruntime=x\n\n[Instance]\ninstance-id = 7\n") == "com.a.app 7")
        #expect(read("[Instance]\r\nname=com.a.app\r\ninstance-id=a.b_c-d\r\n") == "- a.b_c-d")
        #expect(read("name=com.a.app\ninstance-id=7\n[Runtime]\nname=com.a.app") == "- -")
        #expect(read("[Application]\nname=com.a.app\nname=no\n[Instance]\ninstance-id=1\ninstance-id=../1") == "- -")
        for name in ["", ".", "..", "a/b", ".a", String(repeating: "1", count: 129)] {
            #expect(read("[Instance]\ninstance-id=\(name)") == "- -", "\(name)")
        }
    }

    @Test func `nothing that a process may say ends anything`() {
        let seed = UInt64.random(in: 0...0xFFFF_FFFF)
        print("app programs: seed \(seed)")
        var generator = SeededGenerator(seed: seed)
        let words = [
            "app", "-", "@", ".service", ".scope", "\\x2d", "\\x", "[Application]", "\n", "=", "name", ":", "/", "a.b",
        ]
        for _ in 0..<5000 {
            let text = (0..<Int.random(in: 0..<9, using: &generator)).map { _ in
                words.randomElement(using: &generator) ?? ""
            }.joined()
            let unit = SystemdUnit(controlGroups: "0::/system.slice/" + text, user: 0) ?? SystemdUnit(text)
            _ = unit?.application
            #expect(unit?.isCalled(text) != true || unit?.name == text || text.contains("@"))
            _ = FlatpakInfo(Array(text.utf8))
        }
    }

    @Test func `a manifest names files by absolute paths, and units by their names`() throws {
        func read(_ keys: String) throws -> AppManifest {
            try AppManifest(JSONValue(parsing: Array("{\"CFBundleIdentifier\": \"com.a.app\"\(keys)}".utf8)))
        }
        let said = try read(", \"CoveExecutables\": [\"/a\", \"/b\", \"/a\"], \"CoveSystemdUnits\": [\"a.service\"]")
        #expect(said.executables == ["/a", "/b"] && said.units == ["a.service"])
        let silent = try read("")
        #expect(silent.executables == nil && silent.units == nil)
        let many = "[" + Array(repeating: "\"/a\"", count: 33).joined(separator: ", ") + "]"
        for (value, words) in [
            ("\"/a\"", "is no list of at most 32"), (many, "is no list of at most 32"), ("[1]", "has what is no text"),
            ("[\"a\"]", "has no absolute path"), ("[\"/a\\u0000\"]", "has no absolute path"),
        ] {
            #expect(throws: ManifestError("CoveExecutables \(words)")) { try read(", \"CoveExecutables\": \(value)") }
        }
        #expect(throws: ManifestError("CoveSystemdUnits has a name over 255 bytes")) {
            try read(", \"CoveSystemdUnits\": [\"\(String(repeating: "a", count: 250)).service\"]")
        }
    }
}
