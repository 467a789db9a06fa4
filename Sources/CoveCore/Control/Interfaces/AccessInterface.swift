/// `io.cove.Access`: apps, containers, and what is whose.
public enum AccessInterface {
    /// The interface's name.
    public static let name = "io.cove.Access"

    /// The error of a bookmark that is the account's, and that the app may not use.
    public static let refusal = "\(name).Refused"

    /// The interface's definition.
    public static let definition = """
        # Apps and containers of one Cove account. Paths are relative to the mount point. A program that sees only what an app
        # may is answered for that app alone, whatever it asks.
        interface io.cove.Access

        # problem: what has become of the file since it was registered, so that no program is known by it; missing where nothing has.
        type Executable (path: string, problem: ?string)

        # containers: those it declares, its own one first. version: of the manifest that was heeded last. executables, units: by
        # what programs of this device are known as the app's, beside its view, its Flatpak and the units of its identifier.
        type App (
          identifier: string,
          name: ?string,
          version: string,
          containers: []string,
          executables: []Executable,
          units: []string
        )

        # name is its folder's in the tree; identifier its folder's at the source. isPublic: listed in the root, and other apps
        # may be offered its Documents. path: its folder; missing where that is not there.
        type Container (
          identifier: string,
          name: string,
          app: string,
          isPublic: bool,
          folderLevels: ?string,
          path: ?string
        )

        # All apps that the account knows.
        method Apps() -> (apps: []App)

        # Makes an app known by its manifest, a JSON object with the keys of an Info.plist and of its entitlements. isHeeded is
        # false where it has the version of the one that was heeded last, and nothing has changed. Only the user may have
        # CoveExecutables and CoveSystemdUnits in it: lists of what the app's programs are known by on this device from now on.
        method RegisterApp(manifest: string) -> (app: App, isHeeded: bool)

        # Forgets an app; its containers stay.
        method RemoveApp(identifier: string) -> ()

        # All containers.
        method Containers() -> (containers: []Container)

        # Makes a container with its folder and Documents in it, or finds the app's own one.
        method CreateContainer(identifier: string, app: string, name: ?string, isPublic: ?bool) -> (container: Container)

        # Shows a container to people and other apps, or hides it.
        method SetPublic(identifier: string, isPublic: bool) -> (container: Container)

        # The folder of a container that an app may have; without identifier of the first one that the app declares. Missing where
        # there is none.
        method ContainerPath(identifier: ?string, app: ?string) -> (path: ?string)

        # What a program in an app's view is to find empty: the folders of the root that are nothing for the app.
        method View(app: string) -> (container: ?string, covered: []string)

        # From now on the programs of a process's PID namespace see no more than an app may. The namespace must not be the
        # daemon's own.
        method EnterView(app: string, process: int) -> ()

        # A name under which an app has a document that is not its own. target: the document's path; missing where the document
        # is not there.
        type Reference (path: ?string, app: string, container: string, target: ?string, mayWrite: bool, made: float)

        # What an app may do with a document that is not its own. source: open, move or bookmark. path: the document's; missing
        # where it is not there. reference: the path that comes with it, where there is one.
        type Grant (
          id: int,
          app: string,
          path: ?string,
          documentID: string,
          mayWrite: bool,
          source: string,
          made: float,
          reference: ?string
        )

        # Gives an app a document that the user has chosen: a reference to it, in the Documents of the app's first container. Only
        # documents of the root and of public containers can be given. The same document given again has the same reference.
        # scope: what the app names to use the document by another way than the reference.
        method Give(app: string, path: ?string, path_base64: ?string, readOnly: ?bool) -> (reference: string, scope: ?string)

        # All references, or those of an app.
        method References(app: ?string) -> (references: []Reference)

        # All grants, or those of an app.
        method Grants(app: ?string) -> (grants: []Grant)

        # Takes a grant back, and the reference that came with it.
        method Revoke(id: int) -> ()

        # Makes a bookmark, in base64, of what is at a path or of the document that a reference there stands for. keys: values that
        # can be read without resolving it. base: a folder from which the place is told too. Asked by the user, not by the app, it
        # lets the app use the document.
        method CreateBookmark(
          app: ?string,
          path: ?string,
          path_base64: ?string,
          keys: ?[]string,
          base: ?string,
          readOnly: ?bool,
          minimal: ?bool
        ) -> (bookmark: string)

        # Where a bookmark leads, for the app that it was made for; nothing is downloaded. reference: the name that the app has for
        # it. scope: what the app names to use it otherwise; missing where it needs none. isStale: make a new one.
        method ResolveBookmark(app: ?string, bookmark: string, base: ?string) -> (
          path: string,
          reference: ?string,
          scope: ?string,
          isStale: bool,
          isReadOnly: bool
        )

        # The values in a bookmark, a JSON object as a text; they prove nothing until it is resolved.
        method BookmarkValues(bookmark: string) -> (values: string)

        # Lets the calling process use a document once more; each start needs a stop, and all end with the process. path: the name
        # by which it may be used meanwhile; missing where the app uses too many.
        method StartScope(app: ?string, scope: string) -> (path: ?string)

        # Ends one use; one too many is no error.
        method StopScope(scope: string) -> (isInUse: bool)

        # What happened; what to do. errno is set where a system call would have failed so.
        error Failed (message: string, errno: ?int, path: ?string, path_base64: ?string)

        # The bookmark is this account's, unaltered, and the app may not use it: another one need not be asked. errno is EACCES.
        error Refused (message: string, errno: int)

        """

    /// A file that an app's programs are known by.
    public struct Executable: Codable, Sendable, Equatable {
        /// Where it is.
        public var path: String
        /// What has become of it; nil where nothing has.
        public var problem: String?

        /// Tells a file.
        public init(path: String, problem: String?) {
            self.path = path
            self.problem = problem
        }
    }

    /// An app as it is told.
    public struct App: Codable, Sendable, Equatable {
        /// Who it is.
        public var identifier: String
        /// What people see.
        public var name: String?
        /// The version of the manifest that was heeded last.
        public var version: String
        /// The containers it declares.
        public var containers: [String]
        /// Files that its programs are known by on this device.
        public var executables: [Executable]
        /// Units of systemd that its programs are known by on this device.
        public var units: [String]

        /// Tells an app.
        public init(_ record: AppRecord, executables: [Executable], units: [String]) {
            self.executables = executables
            self.units = units
            identifier = record.identifier.text
            name = record.name
            version = record.version
            containers = record.containers.map(\.text)
        }
    }

    /// A container as it is told.
    public struct Container: Codable, Sendable, Equatable {
        /// Which one it is.
        public var identifier: String
        /// What people see.
        public var name: String
        /// Whose it is.
        public var app: String
        /// True where people see it.
        public var isPublic: Bool
        /// How many levels of folders its documents have.
        public var folderLevels: String?
        /// Its folder, from the mount point.
        public var path: String?

        /// Tells a container.
        public init(_ record: ContainerRecord, path: RemotePath?) {
            identifier = record.identifier.text
            name = record.name
            app = record.app.text
            isPublic = record.isPublic
            folderLevels = record.folderLevels?.rawValue
            self.path = path?.description
        }
    }

    /// What `Apps` replies.
    public struct AppsReply: Codable, Sendable {
        /// The apps.
        public var apps: [App]
        /// Makes a reply.
        public init(apps: [App]) { self.apps = apps }
    }

    /// What `RegisterApp` takes.
    public struct RegisterRequest: Codable, Sendable {
        /// A JSON object.
        public var manifest: String
        /// Makes a request.
        public init(manifest: String) { self.manifest = manifest }
    }

    /// What `RegisterApp` replies.
    public struct RegisterReply: Codable, Sendable {
        /// The app as it is known now.
        public var app: App
        /// False where nothing has changed.
        public var isHeeded: Bool
        /// Makes a reply.
        public init(app: App, isHeeded: Bool) {
            self.app = app
            self.isHeeded = isHeeded
        }
    }

    /// What `RemoveApp` takes.
    public struct IdentifierRequest: Codable, Sendable {
        /// The app.
        public var identifier: String
        /// Makes a request.
        public init(identifier: String) { self.identifier = identifier }
    }

    /// What `Containers` replies.
    public struct ContainersReply: Codable, Sendable {
        /// The containers.
        public var containers: [Container]
        /// Makes a reply.
        public init(containers: [Container]) { self.containers = containers }
    }

    /// What `CreateContainer` takes.
    public struct CreateRequest: Codable, Sendable {
        /// Which one it is to be.
        public var identifier: String
        /// Whose it is to be.
        public var app: String
        /// What people are to see.
        public var name: String?
        /// Whether people see it.
        public var isPublic: Bool?
        /// Makes a request.
        public init(identifier: String, app: String, name: String? = nil, isPublic: Bool? = nil) {
            self.identifier = identifier
            self.app = app
            self.name = name
            self.isPublic = isPublic
        }
    }

    /// What `SetPublic` takes.
    public struct PublicRequest: Codable, Sendable {
        /// The container.
        public var identifier: String
        /// Whether people see it.
        public var isPublic: Bool
        /// Makes a request.
        public init(identifier: String, isPublic: Bool) {
            self.identifier = identifier
            self.isPublic = isPublic
        }
    }

    /// What `CreateContainer` and `SetPublic` reply.
    public struct ContainerReply: Codable, Sendable {
        /// The container.
        public var container: Container
        /// Makes a reply.
        public init(container: Container) { self.container = container }
    }

    /// What `ContainerPath` takes.
    public struct PathRequest: Codable, Sendable {
        /// The container.
        public var identifier: String?
        /// Who asks.
        public var app: String?
        /// Makes a request.
        public init(identifier: String? = nil, app: String? = nil) {
            self.identifier = identifier
            self.app = app
        }
    }

    /// What `ContainerPath` replies.
    public struct PathReply: Codable, Sendable {
        /// The folder, from the mount point.
        public var path: String?
        /// Makes a reply.
        public init(path: String?) { self.path = path }
    }

    /// What `View` and `EnterView` take.
    public struct ViewRequest: Codable, Sendable {
        /// The app.
        public var app: String
        /// The process whose PID namespace is meant.
        public var process: Int32?
        /// Makes a request.
        public init(app: String, process: Int32? = nil) {
            self.app = app
            self.process = process
        }
    }

    /// What `View` replies.
    public struct ViewReply: Codable, Sendable {
        /// The folder of the app's first container, from the mount point.
        public var container: String?
        /// Folders of the root that are nothing for the app.
        public var covered: [String]
        /// Makes a reply.
        public init(container: String?, covered: [String]) {
            self.container = container
            self.covered = covered
        }
    }
}
