import CoveCore
import CoveTestSupport
import Foundation
import Testing

/// What apps, containers and documents an account is to have, and who may read which.
struct AccessModel {
    struct Document {
        /// Nil for one of the root.
        var owner: String?
        var path: String
        var text: String
    }

    /// What a program of an app has open: the document, and its text at that time.
    struct Handle {
        var app: String
        var document: Int
        var text: String
    }

    let apps = ["a", "b", "c"]
    /// By the numbers of the steps in which they were opened.
    var handles: [Int: Handle] = [:]
    var documents: [Int: Document] = [:]
    /// Who was given which document, and where that app has it.
    var references: [String: [Int: String]] = [:]
    /// What apps were given by bookmarks alone: on this device, and without a name for it.
    var bookmarked: [String: Set<Int>] = [:]
    /// The bookmarks that were made for each app, and of which document each.
    var tokens: [String: [String: Int]] = [:]
    var hidden: Set<String> = []
    /// The steps in which containers were hidden last, and documents given first.
    var hidingSteps: [String: Int] = [:]
    var givingSteps: [String: [Int: Int]] = [:]
    /// What people call each app's container.
    var names: [String: String] = [:]
    var next = 0

    /// All that an app can read on the device where all was done, or on one that is new.
    func readable(by app: String, onNewDevice isNew: Bool = false) -> Set<String> {
        Set(documents.keys.filter { canRead(app, $0, onNewDevice: isNew) }.compactMap { documents[$0]?.text })
    }

    /// What a handle leads to when it is opened once more: true for its text, false for nothing; nil where another file has
    /// taken the place of the one that it is of.
    func mayReopen(_ handle: Handle) -> Bool? {
        guard documents[handle.document]?.text == handle.text else { return nil }
        return canRead(handle.app, handle.document)
    }

    private func canRead(_ app: String, _ number: Int, onNewDevice isNew: Bool = false) -> Bool {
        guard let document = documents[number] else { return false }
        if document.owner == nil || document.owner == app { return true }
        if references[app]?[number] != nil { return !isNew || isKnownAnew(document, number, app) }
        // Bookmarks belong to the device that made them.
        return !isNew && bookmarked[app]?.contains(number) == true
    }

    /// A device that comes to know a document in a container that was hidden when it was given can't tell that it was.
    private func isKnownAnew(_ document: Document, _ number: Int, _ app: String) -> Bool {
        guard let owner = document.owner, owner != app, hidden.contains(owner) else { return true }
        return hidingSteps[owner] ?? 0 > givingSteps[app]?[number] ?? 0
    }

    /// What a program of an app is to hear on the sockets.
    func answers(to app: String, onNewDevice isNew: Bool) -> AccessAnswers {
        let referenced = (references[app] ?? [:]).filter { number, _ in
            documents[number].map { !isNew || isKnownAnew($0, number, app) } ?? false
        }
        let granted = Set(referenced.keys).union(isNew ? [] : bookmarked[app] ?? [])
        let usable = tokens[app]?.values.filter { !isNew && canRead(app, $0) }.count
        return AccessAnswers(
            grants: granted.compactMap { documents[$0]?.path }.sorted(),
            external: referenced.values.sorted(),
            info: documents.values.filter { $0.owner == nil || $0.owner == app }.map(\.path).sorted(),
            list: documents.values.filter { $0.owner == app }.map(\.path).sorted(),
            resolved: usable ?? 0
        )
    }

    func isOffered(_ document: Document, to app: String) -> Bool {
        document.owner != app && (document.owner.map { !hidden.contains($0) } ?? true)
    }

    /// A folder of an app, or of nobody.
    func folder(_ owner: String?) -> String { owner.map { "\(names[$0] ?? $0)/Documents" } ?? "Shared" }
}

/// What a program of an app hears on the sockets: places, and how many bookmarks led somewhere.
struct AccessAnswers: Codable, Equatable {
    /// Of what it was given.
    var grants: [String]
    /// Its references, as a query tells them.
    var external: [String]
    /// What it can ask about, of all that there is.
    var info: [String]
    /// What is its own in the listing of its `Documents`.
    var list: [String]
    var resolved: Int

    /// Asks both sockets, and prints what it can read by bookmarks and what it has heard, each in a line.
    ///
    /// `PATHS` are all that there are, the file `tokens` has all bookmarks of all apps.
    static let asking = """
        import json, os, socket, sys
        shared = os.environ['COVE_SHARED']
        paths = [p for p in os.environ['PATHS'].split('\\n') if p]
        tokens = open(shared + '/tokens').read().split()
        def connect(name):
            s = socket.socket(socket.AF_UNIX); s.settimeout(20); s.connect(os.getxattr(shared, name)); return s
        full, claims = connect('user.cove.socket'), connect('user.cove.coordination-socket')
        def call(s, method, **parameters):
            s.send(json.dumps({'method': 'io.cove.' + method, 'parameters': parameters}).encode() + b'\\0')
            data = b''
            while not data.endswith(b'\\0'): data += s.recv(65536)
            reply = json.loads(data[:-1])
            return None if 'error' in reply else reply['parameters']
        def own(path): return path.removeprefix('file://').removeprefix(shared + '/')
        heard = {'resolved': 0}
        found = call(full, 'Query.Run', predicate='TRUEPREDICATE', scopes=['external'], attributes=['URLInLocalContainer'])
        heard['external'] = sorted(own(r['values']['URLInLocalContainer']) for r in found['results'])
        heard['info'] = sorted(p for p in paths if call(full, 'Item.Info', path=p))
        container = own(os.environ['COVE_CONTAINER']) + '/Documents'
        listed = call(full, 'Item.List', path=container)['items']
        heard['list'] = sorted(container + '/' + i['name'] for i in listed if container + '/' + i['name'] in paths)
        grants = [call(s, 'Access.Grants')['grants'] for s in (full, claims)]
        assert grants[0] == grants[1], grants
        heard['grants'] = sorted(g['path'] for g in grants[0] if 'path' in g)
        # What it may not ask tells nothing.
        for s in (full, claims):
            for method in ('Query.Run', 'Item.List', 'Item.Versions', 'Item.ReadVersion', 'Account.Status', 'Access.References'):
                for path in paths + ['']:
                    reply = call(s, method, predicate='TRUEPREDICATE', path=path, version='1', app=os.environ['OTHER'])
                    if path not in heard['info']: print('refused' if reply is None else 'told %s %s %s' % (method, path, reply))
            for path in paths:
                values = call(s, 'Query.Values', items=[{'path': path}], attributes=['FSSize'], scopes=['external'])
                if path not in heard['info'] and values: print('told values %s %s' % (path, values))
        for s in (full, claims):
            for token in tokens:
                to = call(s, 'Access.ResolveBookmark', bookmark=token)
                if not to: continue
                heard['resolved'] += 0.5
                place = to.get('reference') or to['path']
                if to.get('scope') and not to.get('reference'):
                    place = call(s, 'Access.StartScope', scope=to['scope'])['path']
                print(open(shared + '/' + place).read())
                if to.get('scope') and not to.get('reference'): call(s, 'Access.StopScope', scope=to['scope'])
        heard['resolved'] = int(heard['resolved'])
        print('heard ' + json.dumps(heard))
        """
}

extension AccessModel {
    /// One step; what it was.
    mutating func perform(
        _ account: MountedAccount,
        _ programs: [String: AppHandles],
        _ generator: inout SeededGenerator
    ) throws -> String {
        let number = documents.keys.sorted().randomElement(using: &generator)
        let app = apps.randomElement(using: &generator) ?? "a"
        let choice = Int.random(in: 0..<24, using: &generator)
        if number == nil || choice < 3 { return try make(account, &generator) }
        guard let number, var document = documents[number] else { return "nothing" }
        next += 1
        let fresh = "f\(next)"
        switch choice {
        case 3...5:
            guard isOffered(document, to: app) else {
                #expect(throws: (any Error).self) { try account.pick(document.path, for: app) }
                return "\(app) was not given \(document.path)"
            }
            let reference = try account.pick(document.path, for: app)
            if let known = references[app]?[number] {
                #expect(reference == known)
            } else {
                givingSteps[app, default: [:]][number] = next
            }
            references[app, default: [:]][number] = reference
            // There is one grant of a document, whichever way it came.
            bookmarked[app]?.remove(number)
            return "\(app) was given \(document.path)"
        case 6:
            let folder = folder(document.owner)
            try account.shell("mv '\(document.path)' '\(folder)/\(fresh)'")
            document.path = "\(folder)/\(fresh)"
            documents[number] = document
            return "\(fresh) was renamed"
        case 7:
            document.text = "text-\(next)-"
            try account.shell(
                "echo \(document.text) > '\(folder(document.owner))/.t'; mv '\(folder(document.owner))/.t' '\(document.path)'"
            )
            documents[number] = document
            return "\(document.path) was saved"
        case 8:
            guard let path = references[app]?[number] else { return "nothing" }
            document.text = "text-\(next)-"
            _ = try account.asApp(
                app,
                "echo \(document.text) > Documents/.n; mv Documents/.n \"$COVE_SHARED/\(path)\""
            )
            documents[number] = document
            return "\(app) saved \(document.path)"
        case 9:
            guard let path = references[app]?[number] else { return "nothing" }
            let moved = "\(folder(app))/\(fresh)"
            try account.shell("mv '\(path)' '\(moved)'")
            references[app]?[number] = moved
            return "the reference \(path) is \(moved)"
        case 10:
            if bookmarked[app]?.contains(number) == true {
                let grants = try account.cove("grants ls", as: [AccessInterface.Grant].self)
                let grant = grants.first { $0.app == "com.\(app).app" && $0.path == document.path }
                try account.cove("grants revoke \(#require(grant, "\(grants)").id)")
                bookmarked[app]?.remove(number)
                return "\(app) may no longer use \(document.path)"
            }
            guard let path = references[app]?[number] else { return "nothing" }
            if Bool.random(using: &generator) {
                try account.shell("rm '\(path)'")
            } else {
                let grants = try account.cove("grants ls", as: [AccessInterface.Grant].self)
                let grant = try #require(
                    grants.first { $0.app == "com.\(app).app" && $0.reference == path },
                    "\(grants)"
                )
                try account.cove("grants revoke \(grant.id)")
            }
            references[app]?[number] = nil
            return "\(path) was taken back"
        case 11:
            // Whoever has a reference keeps it.
            let isHidden = hidden.contains(app)
            try account.cove("container \(isHidden ? "publish" : "hide") com.\(app).box")
            if isHidden { hidden.remove(app) } else { hidden.insert(app) }
            if !isHidden { hidingSteps[app] = next }
            return "\(app) is \(isHidden ? "shown" : "hidden")"
        case 12:
            let old = names[app] ?? app
            try account.shell("mv '\(old)' '\(app)-\(fresh)'")
            names[app] = "\(app)-\(fresh)"
            func moved(_ path: String) -> String {
                path.hasPrefix(old + "/") ? "\(app)-\(fresh)" + path.dropFirst(old.count) : path
            }
            documents = documents.mapValues { document in
                var renamed = document
                renamed.path = moved(document.path)
                return renamed
            }
            references[app] = references[app]?.mapValues(moved)
            return "\(old) is \(app)-\(fresh)"
        case 13...15:
            let owner = Int.random(in: 0..<4, using: &generator) == 0 ? nil : app
            let moved = "\(folder(owner))/\(fresh)"
            try account.shell("mv '\(document.path)' '\(moved)'")
            defer { documents[number] = document }
            let former = document.path
            (document.owner, document.path) = (owner, moved)
            return "\(former) was moved to \(moved)"
        case 16...18:
            guard canRead(app, number) || isOffered(document, to: app) else {
                #expect(throws: (any Error).self) { try bookmark(document.path, app, account) }
                return "\(app) got no bookmark of \(document.path)"
            }
            tokens[app, default: [:]][try bookmark(document.path, app, account)] = number
            if !canRead(app, number) { bookmarked[app, default: []].insert(number) }
            return "\(app) got a bookmark of \(document.path)"
        case 19:
            // The names that apps have for it stay, and lead nowhere.
            try account.shell("rm '\(document.path)'")
            documents[number] = nil
            for app in apps {
                references[app]?[number] = nil
                bookmarked[app]?.remove(number)
            }
            return "\(document.path) was removed"
        case 20...22:
            let said = try #require(programs[app]).open(next, references[app]?[number] ?? document.path)
            let isPlaced = document.owner == nil || document.owner == app || references[app]?[number] != nil
            guard isPlaced else {
                #expect(said.hasPrefix("refused"), "\(app): \(document.path): \(said)")
                return "\(app) did not open \(document.path)"
            }
            #expect(said == document.text, "\(app): \(document.path)")
            handles[next] = Handle(app: app, document: number, text: document.text)
            return "\(app) has \(document.path) open as \(next)"
        default:
            try account.killDaemon()
            return "the daemon was killed"
        }
    }

    private func bookmark(_ path: String, _ app: String, _ account: MountedAccount) throws -> String {
        String(try account.cove("bookmark create '\(path)' --app com.\(app).app").dropLast())
    }

    private mutating func make(
        _ account: MountedAccount,
        _ generator: inout SeededGenerator
    ) throws -> String {
        next += 1
        let owner =
            Int.random(in: 0..<4, using: &generator) == 0 ? nil : apps.randomElement(using: &generator)
        let text = "text-\(next)-"
        let path = "\(folder(owner))/d\(next)"
        try account.shell("echo \(text) > '\(path)'")
        documents[next] = Document(owner: owner, path: path, text: text)
        return "\(path) was made"
    }
}
